"use strict";
// The run draws the parts of the page, as markup; this asks for those that have changed.

const byId = id => document.getElementById(id);
const versions = {};  // by part, of what is shown
const reader = Math.random().toString(36).slice(2);  // by which the run knows this page again

/** Makes `old` the same as `fresh`, node by node, so that what is focused, opened or pointed at stays. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const {name} of [...old.attributes])
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const {name, value} of fresh.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const were = [...old.childNodes], wanted = [...fresh.childNodes];  // nodes move from one to the other
  wanted.forEach((node, i) => i < were.length ? morph(were[i], node) : old.append(node));
  were.slice(wanted.length).forEach(node => node.remove());
}

/** Shows a part. A hint is shown by this script, which does so on a tap and for the keyboard, too. */
function show(name, markup) {
  const fresh = new DOMParser().parseFromString(`<div id="${name}">${markup}</div>`, "text/html").body.firstChild;
  for (const title of fresh.querySelectorAll("title")) {
    title.parentNode.setAttribute("data-hint", title.textContent);
    title.remove();
  }
  for (const plot of fresh.querySelectorAll(".plot"))
    if (plot.querySelector("[data-hint]")) plot.tabIndex = 0;
  for (const name of ["class", "aria-live"])
    if (byId(fresh.id).hasAttribute(name)) fresh.setAttribute(name, byId(fresh.id).getAttribute(name));
  morph(byId(name), fresh);
}

const pressed = id => byId(id).getAttribute("aria-pressed") === "true";

/** Shows what has changed; of a page that nobody sees, once the run has ended or after some seconds. */
async function ask(signal) {
  const query = new URLSearchParams(versions);
  if (document.hidden) query.set("until", "end");
  query.set("reader", reader);
  if (pressed("log")) query.set("scale", "log");
  if (pressed("routine")) query.set("routine", "yes");
  const reply = await fetch("state?" + query, {cache: "no-store", signal});
  const state = await reply.json();
  for (const [name, part] of Object.entries(state.parts)) {
    versions[name] = part.version;
    show(name, part.markup);
  }
  document.title = state.title;
  byId("order").textContent = state.order;
  for (const [name, value] of Object.entries(state.shape)) {
    const field = byId("change").elements[name];
    if (field.options) field.options[0].textContent = `as it is: ${value}`;
    else field.placeholder = value;
  }
  if (state.parts.events) filter();
  return state.ended;
}

let timer = 0, turn = 0, waiting = null;
async function refresh() {
  clearTimeout(timer);
  waiting?.abort();
  const mine = ++turn, began = performance.now(), request = new AbortController();
  waiting = document.hidden ? request : null;
  const late = setTimeout(() => request.abort(), 10000);
  let wait = 1000;
  try {
    const ended = await ask(request.signal);
    byId("silence").textContent = "";
    byId("orders-open").disabled = ended;
    if (ended) return byId("orders").close();  // nothing more will come
  } catch (error) {
    if (mine !== turn) return;  // given up for a newer one
    tellSilence();
    wait = 3000;
  } finally {
    clearTimeout(late);
  }
  if (mine !== turn) return;
  // Browsers let timers of a page that nobody sees wait for a minute.
  if (document.hidden && performance.now() - began > 1000) return refresh();
  timer = setTimeout(refresh, wait);
}

/** What is shown is of the past: nobody knows whether the run still does what it said last. */
function tellSilence() {
  byId("silence").textContent = "The run does not answer: it has ended while nobody looked at this page, or its " +
    "machine cannot be reached. Below is what it showed last; troupe status and troupe report tell how it ended.";
  const state = document.querySelector("#head .state");
  if (!state) return;
  state.textContent = "no answer";
  state.className = "state bad";
  document.title = document.title.replace(/: [^:]*$/, ": no answer");
  delete versions.head;  // to be drawn anew if the run answers again
}

// A page that nobody sees only waits for the end, so that the run need not measure for it.
document.addEventListener("visibilitychange", refresh);

for (const id of ["log", "routine"])
  byId(id).addEventListener("click", () => {
    byId(id).setAttribute("aria-pressed", !pressed(id));
    refresh();
  });

// Events by kind and by words, of all that the page has; so many rows at a time.

const kFirstRows = 20, kMoreRows = 100;
let mostRows = kFirstRows;
const hiddenKinds = new Set();
const kKindCells = "td[data-name=event], td[data-name=what]";  // the second one is that of phases, as bars
const kindOf = row => row.querySelector(kKindCells)?.textContent;

function filter() {
  const words = byId("search").value.toLowerCase();
  const all = [...byId("events").querySelectorAll("tbody tr")].filter(kindOf);
  const groups = all.filter(row => row.querySelector("tbody"));  // each has its rows folded into it
  const rows = all.filter(row => !groups.includes(row));
  const counts = {};
  for (const row of rows) {
    const kind = kindOf(row);
    if (row.querySelector("td[data-name=event]")) counts[kind] = (counts[kind] ?? 0) + 1;
    row.hidden = hiddenKinds.has(kind) || !row.textContent.toLowerCase().includes(words);
  }
  for (const group of groups) {
    group.hidden = [...group.querySelectorAll("tbody tr")].every(row => row.hidden);
    if (words && !group.hidden) group.querySelector("details").open = true;
  }
  page(all.filter(row => !row.hidden && row.querySelector("td[data-name=event]") && !row.closest("details")));
  const focused = document.activeElement?.dataset?.kind;
  byId("kinds").replaceChildren(...Object.keys(counts).sort().map(kind => {
    const button = document.createElement("button");
    button.textContent = `${kind} ${counts[kind]}`;
    button.dataset.kind = kind;
    button.setAttribute("aria-pressed", !hiddenKinds.has(kind));
    button.onclick = () => {
      hiddenKinds.delete(kind) || hiddenKinds.add(kind);
      filter();
    };
    return button;
  }));
  if (focused) byId("kinds").querySelector(`[data-kind="${CSS.escape(focused)}"]`)?.focus();
}
byId("search").addEventListener("input", filter);

/** Shows the first of these rows, and how many there are. */
function page(rows) {
  rows.slice(mostRows).forEach(row => row.hidden = true);
  byId("more").hidden = rows.length <= mostRows;
  byId("more").textContent = `show more: ${mostRows} of ${rows.length}`;
}
byId("more").addEventListener("click", () => {
  mostRows += kMoreRows;
  filter();
});

// Hints: on pointing, on a tap, and for what has the focus.

/** Shows the hint of an element beside a place in the window, or below the element; hides it if there is none. */
function hint(target, x, y) {
  const box = byId("hint");
  box.hidden = !target;
  byId("spot").hidden = true;
  if (!target) return;
  box.textContent = target.dataset.hint;
  box.ariaLive = target.hasAttribute("aria-label") ? "off" : "polite";  // or it would be read twice
  const place = target.getBoundingClientRect();
  [x, y] = [x ?? place.left, y ?? place.bottom];
  box.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.offsetWidth - 4)) + "px";
  box.style.top = (y + 18 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 10 : y + 18) + "px";
}
const hinted = target => target.closest?.("[data-hint]");
let pointer = "";  // its place: browsers say that it moved, too, when the page changed below it
for (const kind of ["pointermove", "pointerdown"])
  document.addEventListener(kind, event => {
    const rests = pointer === `${event.clientX} ${event.clientY}`;
    pointer = `${event.clientX} ${event.clientY}`;
    if (kind === "pointermove" && rests && !byId("spot").hidden) return;  // arrows lead
    hint(hinted(event.target), event.clientX, event.clientY);
  });
document.addEventListener("focusin", event => hint(hinted(event.target)));
document.addEventListener("keydown", event => { if (event.key === "Escape") hint(null); });

// In a picture that has the focus, arrows lead from one thing with a hint to the next.

const kSigns = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1};
let reached = null;  // the place in its picture that an arrow led to last; what is there may change

/** The place of an element in a picture. */
function placeIn(picture, element) {
  const frame = picture.getBoundingClientRect(), box = element.getBoundingClientRect();
  return {picture, x: box.x - frame.x, y: box.y - frame.y, width: box.width, height: box.height};
}

/** What a reader sees next to a place in the direction of an arrow; null: nothing. */
function nextTo(place, things, key) {
  const upright = key === "ArrowDown" || key === "ArrowUp";
  const [along, across] = upright ? ["y", "x"] : ["x", "y"];
  const sizes = {x: "width", y: "height"};
  const middle = (box, axis) => box[axis] + box[sizes[axis]] / 2;
  const costAside = upright ? 1 / 8 : 8;  // rows are read from left to right, and left for the next one
  let best = null, least = Infinity;
  for (const thing of things) {
    const there = placeIn(place.picture, thing), at = middle(place, across);
    const ahead = kSigns[key] * (middle(there, along) - middle(place, along));
    const aside = Math.max(there[across] - at, at - there[across] - there[sizes[across]], 0);
    if (ahead > 1 && ahead + costAside * aside < least) [best, least] = [thing, ahead + costAside * aside];
  }
  return best;
}

document.addEventListener("keydown", event => {
  const picture = event.target.closest?.(".plot");
  if (!picture || !kSigns[event.key]) return;
  event.preventDefault();
  const things = [...picture.querySelectorAll("[data-hint]")];
  const thing = reached?.picture === picture ? nextTo(reached, things, event.key) : things[0];
  if (!thing) return;
  reached = placeIn(picture, thing);
  const box = thing.getBoundingClientRect(), spot = byId("spot");
  hint(thing, box.x + box.width / 2, box.y + box.height / 2);
  spot.hidden = false;
  for (const side of ["left", "top", "width", "height"]) spot.style[side] = box[side] + "px";
});
addEventListener("scroll", () => hint(document.querySelector("[data-hint]:focus-visible")), {passive: true});

// Orders, with the run's token, which this tab keeps until it is closed.

let orders = 0;  // given so far

async function order(request, fields = {}) {
  const answer = byId("answer"), number = ++orders;
  answer.className = "";
  answer.ariaBusy = "true";
  try {
    const token = sessionStorage.getItem("token") ?? byId("token").value;
    const reply = await fetch("order", {method: "POST", body: JSON.stringify({token, request, ...fields})});
    const body = await reply.json();
    if (reply.ok) sessionStorage.setItem("token", token);
    if (reply.status === 403) sessionStorage.removeItem("token");
    showOrders();
    showAnswer(number, body.error ?? body.text, reply.ok);
    return reply.ok && body;
  } catch (error) {
    showAnswer(number, "The run does not answer.", false);
    return false;
  }
}

/** Shows the answer to an order, unless a later order was given, whose answer is awaited. */
function showAnswer(number, text, good) {
  if (number !== orders) return;
  const answer = byId("answer");
  answer.textContent = text;
  answer.className = good ? "" : "bad";
  answer.ariaBusy = "false";
  answer.scrollIntoView({block: "nearest"});  // it may be below the window of a telephone
}

function showOrders() {
  const known = sessionStorage.getItem("token") !== null;
  byId("greet").hidden = known;
  byId("change").hidden = !known;
}

/** What the form asks for; a field that is empty asks for nothing. */
function asked() {
  const fields = {};
  for (const input of byId("change").querySelectorAll("[name]"))
    if (input.value) fields[input.name] = input.type === "number" ? Number(input.value) : input.value;
  return fields;
}

byId("orders-open").addEventListener("click", () => {
  showOrders();
  byId("orders").showModal();
});
byId("greet").addEventListener("submit", event => {
  event.preventDefault();
  order("greet");
});
// An order is given only as it was shown.
byId("change").addEventListener("input", () => byId("scale").disabled = true);
byId("change").addEventListener("submit", async event => {
  event.preventDefault();
  byId("scale").disabled = !await order("preview", asked());
});
byId("trace").addEventListener("click", async () => {
  byId("answer").textContent = "Tracing ...";
  const body = await order("trace", {steps: Number(byId("steps").value)});
  if (!body) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(body.trace)], {type: "application/json"}));
  link.download = "trace.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
byId("tap").addEventListener("click", () => {
  byId("answer").textContent = "Waiting for tensors ...";
  order("tap", {edge: byId("edge").value, backward: byId("direction").value === "gradients"});
});
byId("scale").addEventListener("click", () => {
  byId("scale").disabled = true;
  order("scale", asked());
});
byId("save").addEventListener("click", () => order("save"));
byId("stop").addEventListener("click", () => {
  if (byId("stop").dataset.sure) return order("stop");
  sureToStop("yes");
});
byId("orders").addEventListener("close", () => sureToStop(""));

/** A stop is asked for twice, without closing the orders between. */
function sureToStop(sure) {
  byId("stop").dataset.sure = sure;
  byId("stop").textContent = sure ? "Stop the run now" : "Stop";
}

refresh();
