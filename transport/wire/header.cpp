#include "transport/wire/header.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <xxhash.h>

#include <boost/container/static_vector.hpp>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tensor/errors/error.h"
#include "transport/wire/header.capnp.h"

namespace troupe::transport {
namespace {

constexpr std::size_t kMaxWords = kMaxHeaderBytes / sizeof(capnp::word);

/// XXH3 over the fields of a header, one word per field.
class Checksum {
 public:
  void add(std::uint64_t value) { words_.push_back(value); }
  void add(const EdgeId& edge) {
    add(static_cast<std::uint64_t>(edge.chunk));
    add(static_cast<std::uint64_t>(edge.direction));
    add(edge.digest);
  }
  void add(tensor::DType dtype, const tensor::Shape& shape) {
    add(static_cast<std::uint64_t>(dtype));
    for (const std::int64_t dim : shape.dims()) add(static_cast<std::uint64_t>(dim));
  }
  void add(const Credit& credit) {
    add(credit.edge);
    for (const std::uint16_t slot : credit.slots) add(slot + 1ull);
  }
  void add(const Grant& grant) {
    add(grant.edge);
    add(grant.dtype, grant.shape);
    add(static_cast<std::uint64_t>(grant.slots));
    add(static_cast<std::uint64_t>(grant.segment.id));
    add(grant.segment.nonce);
    add(static_cast<std::uint64_t>(grant.kept));
    add(static_cast<std::uint64_t>(grant.on_device));
  }
  void add(const Decline& decline) { add(decline.edge); }
  void add(const TensorMessage& message) {
    add(message.edge);
    add(message.step);
    add(static_cast<std::uint64_t>(message.microbatch));
    add(static_cast<std::uint64_t>(message.slot));
    add(static_cast<std::uint64_t>(message.placement));
    add(message.dtype, message.shape);
    add(message.bytes);
    add(message.sequence);
    if (message.credit) add(*message.credit);
  }
  void add(const CollectiveMessage& message) {
    add(static_cast<std::uint64_t>(message.kind));
    add(message.group);
    add(message.sequence);
    add(message.operation);
    add(message.part);
    add(message.bytes);
    add(static_cast<std::uint64_t>(message.dtype));
    add(message.reduction);
    add(static_cast<std::uint64_t>(message.segment.id));
    add(message.segment.nonce);
    add(message.segment_bytes);
    add(message.offset);
  }
  std::uint64_t value() const {
    return XXH3_64bits(words_.data(), words_.size() * sizeof words_[0]);
  }

 private:
  /// A tensor message with a full credit has the most words: 64 slots and its own fields.
  boost::container::static_vector<std::uint64_t, 128> words_;
};

std::uint64_t checksum(const Header& header) {
  Checksum sum;
  sum.add(header.run);
  sum.add(header.configuration);
  sum.add(static_cast<std::uint64_t>(header.sender));
  sum.add(header.body.index());
  std::visit([&sum](const auto& body) { sum.add(body); }, header.body);
  return sum.value();
}

kj::ArrayPtr<const std::int64_t> array_of(const tensor::Shape& shape) {
  return kj::arrayPtr(shape.dims().data(), shape.dims().size());
}

void write(const EdgeId& edge, wire::EdgeId::Builder out) {
  out.setChunk(static_cast<std::uint32_t>(edge.chunk));
  out.setDirection(static_cast<wire::Direction>(edge.direction));
  out.setDigest(edge.digest);
}

void write(const Credit& credit, wire::Credit::Builder out) {
  write(credit.edge, out.initEdge());
  out.setSlots(kj::arrayPtr(credit.slots.data(), credit.slots.size()));
}

void write(const Grant& grant, wire::Grant::Builder out) {
  write(grant.edge, out.initEdge());
  out.setDtype(static_cast<wire::DType>(grant.dtype));
  out.setShape(array_of(grant.shape));
  out.setSlots(static_cast<std::uint32_t>(grant.slots));
  out.setSegment(grant.segment.id);
  out.setNonce(grant.segment.nonce);
  out.setKept(grant.kept);
  out.setOnDevice(grant.on_device);
}

void write(const TensorMessage& message, wire::Tensor::Builder out) {
  write(message.edge, out.initEdge());
  out.setStep(message.step);
  out.setMicrobatch(static_cast<std::uint32_t>(message.microbatch));
  out.setSlot(static_cast<std::uint16_t>(message.slot));
  out.setPlacement(static_cast<wire::Placement>(message.placement));
  out.setDtype(static_cast<wire::DType>(message.dtype));
  out.setShape(array_of(message.shape));
  out.setBytes(message.bytes);
  out.setSequence(message.sequence);
  if (message.credit) write(*message.credit, out.initCredit());
}

void write(const CollectiveMessage& message, wire::Collective::Builder out) {
  out.setKind(static_cast<wire::CollectiveKind>(message.kind));
  out.setGroup(message.group);
  out.setSequence(message.sequence);
  out.setOperation(message.operation);
  out.setPart(message.part);
  out.setBytes(message.bytes);
  out.setDtype(static_cast<wire::DType>(message.dtype));
  out.setReduction(message.reduction);
  out.setSegment(message.segment.id);
  out.setNonce(message.segment.nonce);
  out.setSegmentBytes(message.segment_bytes);
  out.setOffset(message.offset);
}

void write_body(const Header& header, wire::Header::Builder out) {
  if (const auto* grant = std::get_if<Grant>(&header.body)) {
    write(*grant, out.initGrant());
  } else if (const auto* message = std::get_if<TensorMessage>(&header.body)) {
    write(*message, out.initTensor());
  } else if (const auto* credit = std::get_if<Credit>(&header.body)) {
    write(*credit, out.initCredit());
  } else if (const auto* decline = std::get_if<Decline>(&header.body)) {
    write(decline->edge, out.initDecline());
  } else {
    write(std::get<CollectiveMessage>(header.body), out.initCollective());
  }
}

/// Called by the functions that read a part of a header: makes decode() return none.
[[noreturn]] void refuse() {
  throw std::invalid_argument("not a header");
}

int to_int(std::uint32_t value) {
  if (value > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) refuse();
  return static_cast<int>(value);
}

template <typename To, typename From>
To to_enum(From value, To last) {
  const auto number = static_cast<unsigned>(value);
  if (number > static_cast<unsigned>(last)) refuse();
  return static_cast<To>(number);
}

EdgeId read(wire::EdgeId::Reader in) {
  return {.chunk = to_int(in.getChunk()),
          .direction = to_enum(in.getDirection(), Direction::state),
          .digest = in.getDigest()};
}

Credit read(wire::Credit::Reader in) {
  Credit credit{.edge = read(in.getEdge()), .slots = {}};
  for (const std::uint16_t slot : in.getSlots())
    credit.slots.size() < credit.slots.capacity() ? credit.slots.push_back(slot) : refuse();
  return credit;
}

tensor::Shape read_shape(capnp::List<std::int64_t>::Reader in) {
  std::array<std::int64_t, tensor::Shape::kMaxRank> dims{};
  if (in.size() > dims.size()) refuse();
  std::copy(in.begin(), in.end(), dims.begin());
  return tensor::Shape(std::span<const std::int64_t>(dims.data(), in.size()));
}

Grant read(wire::Grant::Reader in) {
  return {.edge = read(in.getEdge()),
          .dtype = to_enum(in.getDtype(), tensor::DType::i64),
          .shape = read_shape(in.getShape()),
          .slots = to_int(in.getSlots()),
          .kept = in.getKept(),
          .segment = {.id = in.getSegment(), .nonce = in.getNonce()},
          .on_device = in.getOnDevice()};
}

TensorMessage read(wire::Tensor::Reader in) {
  TensorMessage message{.edge = read(in.getEdge()),
                        .step = in.getStep(),
                        .microbatch = to_int(in.getMicrobatch()),
                        .slot = in.getSlot(),
                        .placement = to_enum(in.getPlacement(), Placement::written),
                        .dtype = to_enum(in.getDtype(), tensor::DType::i64),
                        .shape = read_shape(in.getShape()),
                        .bytes = in.getBytes(),
                        .sequence = in.getSequence(),
                        .credit = std::nullopt};
  if (in.hasCredit()) message.credit = read(in.getCredit());
  return message;
}

CollectiveMessage read(wire::Collective::Reader in) {
  return {.kind = to_enum(in.getKind(), CollectiveKind::called),
          .group = in.getGroup(),
          .sequence = in.getSequence(),
          .operation = in.getOperation(),
          .part = in.getPart(),
          .bytes = in.getBytes(),
          .dtype = to_enum(in.getDtype(), tensor::DType::i64),
          .reduction = in.getReduction(),
          .segment = {.id = in.getSegment(), .nonce = in.getNonce()},
          .segment_bytes = in.getSegmentBytes(),
          .offset = in.getOffset()};
}

Header read(wire::Header::Reader in) {
  Header header{.run = in.getRun(),
                .configuration = in.getConfiguration(),
                .sender = to_int(in.getSender()),
                .body = {}};
  switch (in.which()) {
    case wire::Header::GRANT:
      header.body = read(in.getGrant());
      break;
    case wire::Header::TENSOR:
      header.body = read(in.getTensor());
      break;
    case wire::Header::CREDIT:
      header.body = read(in.getCredit());
      break;
    case wire::Header::COLLECTIVE:
      header.body = read(in.getCollective());
      break;
    case wire::Header::DECLINE:
      header.body = Decline{.edge = read(in.getDecline())};
      break;
    default:
      refuse();
  }
  if (in.getChecksum() != checksum(header)) refuse();
  return header;
}

}  // namespace

std::size_t encode(const Header& header, HeaderBytes& out) {
  // FlatArrayMessageReader expects the segment table first. For one segment that is one word, so
  // the segment may have all words but one.
  capnp::word scratch[kMaxWords - 1] = {};
  capnp::MallocMessageBuilder message(kj::arrayPtr(scratch, kMaxWords - 1),
                                      capnp::AllocationStrategy::FIXED_SIZE);
  auto root = message.initRoot<wire::Header>();
  root.setRun(header.run);
  root.setConfiguration(header.configuration);
  root.setSender(static_cast<std::uint32_t>(header.sender));
  root.setChecksum(checksum(header));
  write_body(header, root);

  const auto segments = message.getSegmentsForOutput();
  TROUPE_ASSERT(segments.size() == 1);
  const auto segment = segments[0].asBytes();
  const std::uint32_t table[2] = {0, static_cast<std::uint32_t>(segments[0].size())};
  std::memcpy(out.data(), table, sizeof table);
  std::memcpy(out.data() + sizeof table, segment.begin(), segment.size());
  return sizeof table + segment.size();
}

std::optional<Header> decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty() || bytes.size() > kMaxHeaderBytes) return std::nullopt;
  capnp::word aligned[kMaxWords];
  std::memcpy(aligned, bytes.data(), bytes.size());
  try {
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(aligned, bytes.size() / sizeof(capnp::word)));
    return read(message.getRoot<wire::Header>());
  } catch (...) {  // of Cap'n Proto or of refuse(): these bytes are no header
    return std::nullopt;
  }
}

}  // namespace troupe::transport
