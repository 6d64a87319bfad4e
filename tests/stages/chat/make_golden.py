#!/usr/bin/env python3
"""Writes golden.json beside this file: chat templates, and the texts that Hugging Face's transformers (5.24.0) makes
with them. usage: make_golden.py, with a python that has transformers and jinja2."""
import datetime, json, pathlib
from unittest import mock

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
# Each line or tag tries something else; their ways to write a loop are those of models in use.
TEMPLATES = {
    "chatml": ("{% for message in messages %}"
               "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\\n'}}"
               "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    "instructions": r"""{% if messages[0]['role'] == 'system' %}
    {% set rest = messages[1:] %}
    {% set system = messages[0]['content'] %}
{% else %}
    {% set rest = messages %}
    {% set system = false %}
{% endif %}
{% for message in rest %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate, ' ~ loop.index ~ ' does not') }}
    {% endif %}
    {% if loop.index0 == 0 and system != false %}
        {% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {% elif message['role'] == 'assistant' %}
        {{ ' '  + content.strip() + ' ' + eos_token }}
    {% endif %}
{% endfor %}
""",
    "headers": r"""{%- set first = bos_token %}
{#- A comment
    of two lines -#}
{%- for m in messages -%}
    {%- set text = '<|begin|>' + m.role + '<|end|>\n\n' + m.content | trim + '<|eot|>' -%}
    {%- if loop.first -%}{%- set text = first + text -%}{%- endif -%}
    {{- text -}}
{%- endfor -%}
{%- if add_generation_prompt is defined and add_generation_prompt -%}
    {{- '<|begin|>assistant<|end|>\n\n' -}}
{%- endif -%}""",
    "plain lines": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
""",
    "tools not used": r"""{%- if tools %}
    {%- for tool in tools %}{{ tool | tojson }}{% endfor %}
    {%- for name, value in tools.items() %}{{ name }}{% endfor %}
{%- elif tools is none and not documents and other is not defined %}
    {{- 'no tools\n' }}
{%- endif %}
{%- set ns = namespace(count=0, last='none') %}
{%- for message in messages if message.role != 'system' %}
    {%- if message.role in ['user', "assistant"] and not message.tool_calls %}
        {%- set ns.count = ns.count + 1 %}
        {%- set ns.last = message['role'] %}
        {{- ns.count ~ '/' ~ loop.length ~ ' ' + message.role + ': ' + message.content ~ '\n' }}
    {%- else %}
        {{- message.tool_calls | tojson }}
    {%- endif %}
{%- else %}
    {{- 'nobody' }}
{%- endfor %}
{{- ns.last if ns.count > 1 else 'few' }}{{ 'x' if ns.count > 100 }}{{ ns.missing }}
""",
    "generation": r"""{% for message in messages %}
{% if message.role == 'assistant' %}
<A>{% generation %}{{ message.content + eos_token }}{% endgeneration %}
{% else %}
<{{ message.role }}>{{ message.content }}
{%- endif %}
{% endfor %}
""",
    "white space": "a \r\n  {% if true %}  \n b {%+ if true %}\n\n c {%- endif +%}\n d{% endif %}\n\n e "
                   "{{- 1 -}} \u00a0\n"
                   "  {# x #}  \n f {#- y -#} g\n  {{ 2 }}\n{#+ z +#}\n h{%if  1%}{{'{{'}}{%endif%}"
                   "{ % } {{ \"a'b\" }}\n\n",
    "values": r"""{{ [1, -2, 3][-1] }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 * 2 - 1 }} {{ none }} {{ true }} {{ nothing }}
{{ 'A\x41\u00e9\U0001f600\t\q\'' "joined" ~ 5 }} {{ not 'a' in 'cat' }} {{ 'x' not in messages[0] }}
{{ 'role' in messages[0] }} {{ messages | length }} {{ messages[0].content | length }} {{ 'b' > 'a' }} {{ 2 <= 1 }}
{{ (messages | length > 1) and 'many' or 'one' }} {{ messages[0].content.split('o') | length }} {{ ' x '.lstrip() }}|
{{ messages[0].content.split('o')[0].rstrip('el') }} {{ messages[99] is undefined }} {{ messages is iterable }}
{{ messages[0] is mapping }} {{ messages[0].content is string }} {{ strftime_now is defined }} {{ none is none }}
{{ 3 is not none }} {{ false is false }} {{ nothing | default('d') }} {{ messages[0].content.startswith('He') }}
{{ messages[0].content.endswith('x') }} {{ 1 if 0 else 2 if 0 else 3 }} {{ messages[:-1] | length }}
{% for m in messages[1:] %}
{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.last }}{% set a = 'in' %}{{ a }}
{% endfor %}
{{ a }}
""",
    "slices": r"""{{ 'abcdef'[::-2] }}{{ 'abcdef'[-2::-1] }}{{ 'a\u00e9\u65e5b'[1:3] }}{{ 'abc'[5:] }}
{{ 'abc'[-9:2] }}
{{ messages[::-1][0].content }}{{ messages[1::2] | length }}{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abc'[9] is defined }}
{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{{ loop.previtem.role if loop.previtem is defined }}
{{ loop.nextitem is defined }};{% endfor %}
{% for c in 'a\u00e9' %}<{{ c }}>{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}
{{ range(5, 0, -2) | list }}""",
    "selection": r"""{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | rejectattr('role', 'in', ['tool', 'system']) | map(attribute='role') | join(',') }}
{{ messages | selectattr('name', 'defined') | list | length }}
{{ messages | map(attribute='name', default='?') | join }}
{{ ['a b', 'c-d'] | map('title') | list }}{{ [1, 2, 3] | select('odd') | list }}{{ [0, '', 'x'] | reject | list }}
{{ messages | map(attribute='content') | map('trim') | first | length }}{{ [3, 4] | select('>', 3) | list }}
{{ messages | selectattr('role', '==', 'user') | map(attribute='role') | list | last }}""",
    "macros": r"""{%- macro box(text, end='!', begin=end) -%}
[{{ begin }}{{ text }}{{ caller() if caller else end }}]
{%- endmacro -%}
{%- macro tree(x) -%}{%- if x is mapping -%}{ {%- for k, v in x.items() -%}{{ k }}={{ tree(v) }}
{% if not loop.last %},{% endif %}
{%- endfor -%} }{%- elif x is iterable and x is not string -%}({%- for v in x -%}{{ tree(v) }}{%- endfor -%})
{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}
{%- set ns = namespace(n=0, last='') -%}
{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}{%- set ns.last = m.role -%}
{%- call box(m.role, end='?') -%}{{ m.content }}{{ ns.n }}{%- endcall -%}{{ box(m.role) }}{{ box(end='.', text=1) }}
{%- endfor -%}
{%- macro each(list) -%}{%- for x in list -%}{{ caller(x, loop.index) }};{%- endfor -%}{%- endmacro -%}
{%- call(x, n) each(['a', 'b']) -%}{{ x * n }}{%- endcall -%}
{{ ns.last }}{{ tree({'a': [1, {'b': none}], "c": (true, 1.5)}) }}{{ box('x', begin='y') }}
{%- set both -%}{{ ns.n }}{{ ns.last }}{%- endset -%}{{ both | length }}{{ both is string }}{{ box is callable }}""",
    "loops that end": r"""{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}
{{ loop.index }}{{ m.role }}
{% if loop.index > 2 %}{% break %}{% endif %}{% else %}none{% endfor %}{% for k, v in messages[0].items() %}
{{ k }}:{{ v }};{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }}{% endfor %}""",
    "JSON": r"""{{ messages | tojson }}
{{ messages[0] | tojson(indent=2) }}
{{ {'z': [], 'a': {}, 'n': [1, 2.5, -0.0, 1e22, 1e-7, none, true]} | tojson(indent=1) }}
{{ {'b': '\u00e9"\\/</script>\t\x7f', 'a': [[1], {}]} | tojson(separators=(',', ':'), sort_keys=true) }}
{{ '\u00e9\U0001f600\u007f\b' | tojson(ensure_ascii=true) }}{{ [1] | tojson(indent='..') }}""",
    "texts of Python": r"""{{ [1, 2.5, none, true, 'a', "it's",
 'say "hi"', 'both \' and "', '\u00e9\n\t\\\x7f\u200b\ue000\u65e5'] }}
{{ {'a': {'b': [1.0, 100000.0, 1e16, 1e-5, 0.1, 123456789012345680.0]}, 'c': ()} }}{{ (1,) }}{{ (1, 'a') }}
{{ 7 / 2 }}{{ 4 / 2 }}
{{ 7.5 // 2 }}{{ -7.5 // 2 }}{{ -7.5 % 2 }}{{ 7 // -2 }}{{ 2.5 - 1 }}{{ -2.5 }}
{{ 1 == 1.0 }}{{ true == 1 }}{{ [1, 'a'] == [1, 'a'] }}{{ {'a': 1} == {'a': 1} }}{{ 1.5 + 1 }}{{ 'ab' * 3 }}
{{ [1] + [2] }}{{ 2 < 2.5 }}
{{ 'abc' in ['abc'] }}{{ 1 in (1, 2) }}{{ 'a' in {'a': 1} }}{{ {'a': 1}.get('b', 'no') }}{{ {'a': 1}['a'] }}
{{ {'x': 1}.items() | list }}
{{ dict(a=1, b=2) }}{{ {'a': 1, 'b': 2, 'a': 3} }}{{ {'a': 1}.keys() | list }}{{ {'a': 1}.values() | list }}""",
    "strings": r"""{{ 'it isn\'t OVER'.title() }}|{{ 'it isn\'t OVER' | title }}
{{ 'aBC' | capitalize }}|{{ 'aBC'.upper() }}{{ 'aBC' | lower }}
{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a\nb\r\nc'.splitlines() }}
{{ 'aaa'.replace('a', 'b', 2) }}
{{ 'abc'.find('c') }}{{ 'abc'.find('x') }}{{ 'aXa'.count('a') }}{{ ','.join(['a', 'b']) }}
{{ 'abc'.removeprefix('a') }}{{ '12'.isdigit() }}
{{ ['a', 1, none] | join('-') }}{{ 'a\nb\n\nc' | indent(2) }}|{{ 'a\nb' | indent(2, first=true) }}
{{ 'xyx' | trim('x') }}
{{ '' | default('d') }}{{ '' | default('d', true) }}{{ 'abc' | first }}{{ [1, 2] | last }}{{ 'abc' | reverse }}
{{ [1, 2] | reverse | list }}
{{ 'abc'.startswith(('x', 'a')) }}{{ '42' | int + 1 }}{{ 'x' | int }}{{ -3 | abs }}{{ 'abc' | list }}
{{ 3.99 | int }}{{ 'a'.foo is defined }}
{% for k, v in {'b': 1, 'A': 2, 'a': 3} | dictsort %}{{ k }}{{ v }}{% endfor %}
{{ {'a': '<b>'} | tojson | safe ~ '&' }}
{{ 6 is divisibleby 3 }}{{ 6 is even }}{{ 2 is eq 2 }}{{ 'a' is in ['a'] }}{{ 1.5 is float }}
{{ 'ab'.replace('', '-') }}{{ '\u00e9a'.find('a') }}""",
    "dates": r"""{{ strftime_now('%d %b %Y') }}|{{ strftime_now("%A %B %-d %Y %H:%M %j") }}
{{ strftime_now is defined }}""",
    "members": r"""{% for m in messages %}{{ m.name }}{{ m['weight'] }}{{ 'name' in m }}{% endfor %}""",
}
CONVERSATIONS = [
    [("user", "Hello there"), ("assistant", "Hi!")],
    [("system", " Be brief. "), ("user", "  2 + 2?\n"), ("assistant", "\n4\n"), ("user", "na\u00efve \u65e5\u672c"),
     ("assistant", "")],
    [("user", "one"), ("user", "two")],
    [("assistant", "I begin")],
    [("user", "\u00a0\u001f \U0001f600 <|im_end|> {{ x }}\n\n"), ("assistant", "a\r\nb")],
]


def messages_of(conversation):
    return [{"role": role, "content": content} for role, content in conversation]


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


@mock.patch("transformers.utils.chat_template_utils.datetime", Day)
def outcome(template, messages, **more):
    try:
        return render_jinja_template([messages], chat_template=template, **TOKENS, **more)
    except Exception as error:
        return str(error)


def case(template, messages):
    result = {"messages": messages}
    for name, prompt in ("text", False), ("prompt", True):
        made = outcome(template, messages, add_generation_prompt=prompt)
        result[name] = {"error": made} if isinstance(made, str) else made[0][0]
    if "{% generation %}" in template:
        characters = outcome(template, messages, return_assistant_tokens_mask=True)[1][0]
        to_bytes = lambda at: len(result["text"][:at].encode())
        result["generated"] = [[to_bytes(begin), to_bytes(end)] for begin, end in characters]
    return result


def main():
    golden = []
    for name, template in TEMPLATES.items():
        cases = [case(template, messages_of(c)) for c in CONVERSATIONS]
        if name == "members":
            cases = [case(template, [{"role": "user", "content": "x", "name": "Ann", "weight": 2}])]
        golden.append({"name": name, "template": template, "tokens": TOKENS, "cases": cases})
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
