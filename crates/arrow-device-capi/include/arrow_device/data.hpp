// The data of arrow_device.hpp: schemas, buffers, arrays, views, streams and tensors.
//
// `arrow_device.hpp` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_DATA_HPP_
#define ARROW_DEVICE_DATA_HPP_

#ifndef ARROW_DEVICE_ARROW_DEVICE_HPP_
#error "include arrow_device/arrow_device.hpp"
#endif

#include <iterator>

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

// ----------------------------------------------------------------------------------------- schemas

namespace detail {

// The format string of a C++ type of numbers; nothing for other types.
template <typename T>
constexpr const char* format_of() {
  if constexpr (std::is_same_v<T, float>) {
    return "f";
  } else if constexpr (std::is_same_v<T, double>) {
    return "g";
  } else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "Arrow has no array of this type of C++");
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1: return is_signed ? "c" : "C";
      case 2: return is_signed ? "s" : "S";
      case 4: return is_signed ? "i" : "I";
      default: return is_signed ? "l" : "L";
    }
  }
}

// How many bytes each element has; 0 if that is not one number of whole bytes.
inline size_t width_of(const std::string& format) {
  const std::string_view head = std::string_view(format).substr(0, 2);
  if (format.size() == 1) {
    switch (format[0]) {
      case 'c': case 'C': return 1;
      case 's': case 'S': case 'e': return 2;
      case 'i': case 'I': case 'f': return 4;
      case 'l': case 'L': case 'g': return 8;
      default: return 0;
    }
  }
  if (format == "tdD" || format == "tts" || format == "ttm" || format == "tiM") return 4;
  if (format == "tin") return 16;
  if (head == "td" || head == "tt" || head == "ts" || head == "tD" || head == "ti") return 8;
  if (head == "w:") return static_cast<size_t>(std::strtoul(format.c_str() + 2, nullptr, 10));
  if (head == "d:") {
    const size_t first = format.find(','), second = format.find(',', first + 1);
    if (second == std::string::npos) return 16;
    return static_cast<size_t>(std::strtoul(format.c_str() + second + 1, nullptr, 10)) / 8;
  }
  return 0;
}

}  // namespace detail

// Pairs of a key and a value, which may be any bytes.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// The name and the parameters of an extension type.
struct Extension {
  std::string name;
  std::string parameters;
};

using SchemaInfo = ardev_schema_info;

namespace detail {

inline std::string text_of(const ardev_bytes& bytes) {
  return std::string(static_cast<const char*>(bytes.data), bytes.size);
}
inline ardev_bytes bytes_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

}  // namespace detail

// A type, with a name if it is a field of another.
class Schema : public detail::Owner<ardev_schema, ardev_schema_free> {
 public:
  using Owner::Owner;

  [[nodiscard]] static Outcome<Schema> import_from(ArrowSchema* c_schema) {
    return detail::outcome(
        detail::made<Schema>([&](auto out, auto error) { return ardev_schema_import(c_schema, out, error); }));
  }
  // A type by its format string ("l" is int64, "u" is UTF-8 text, "+s" a struct), with as many
  // children as the format wants.
  [[nodiscard]] static Outcome<Schema> make(const std::string& format, const std::string& name = "",
                                            const std::vector<const Schema*>& children = {},
                                            int64_t flags = ARROW_FLAG_NULLABLE, const Schema* dictionary = nullptr) {
    std::vector<const ardev_schema*> pointers;
    for (const Schema* child : children) pointers.push_back(child == nullptr ? nullptr : child->get());
    return detail::outcome(detail::made<Schema>([&](auto out, auto error) {
      return ardev_schema_new(format.c_str(), name.c_str(), flags, pointers.data(), pointers.size(),
                              dictionary == nullptr ? nullptr : dictionary->get(), out, error);
    }));
  }
  // The type of a number of C++, such as `Schema::of<int64_t>("id")`.
  template <typename T>
  [[nodiscard]] static Outcome<Schema> of(const std::string& name = "") {
    return make(detail::format_of<T>(), name);
  }

  Outcome<void> export_to(ArrowSchema* out) const {
    return detail::outcome(detail::done([&](auto error) { return ardev_schema_export(get(), out, error); }));
  }
  [[nodiscard]] Outcome<Exported<ArrowSchema>> exported() const { return detail::outcome(try_exported()); }
  // The format string; of a dictionary-encoded type that of its keys.
  [[nodiscard]] Outcome<std::string> format() const { return detail::outcome(try_format()); }
  // The name; empty where there is none.
  [[nodiscard]] Outcome<std::string> name() const {
    return detail::outcome(try_read<std::string>([](const SchemaInfo& info) { return detail::text_of(info.name); }));
  }
  // ARROW_FLAG_..., and any other bits that the type came with.
  [[nodiscard]] Outcome<int64_t> flags() const {
    return detail::outcome(try_read<int64_t>([](const SchemaInfo& info) { return info.flags; }));
  }
  [[nodiscard]] Outcome<size_t> children() const {
    return detail::outcome(try_read<size_t>([](const SchemaInfo& info) { return info.n_children; }));
  }
  [[nodiscard]] Outcome<Schema> child(size_t index) const {
    return detail::outcome(
        detail::made<Schema>([&](auto out, auto error) { return ardev_schema_child(get(), index, out, error); }));
  }
  // The type of the values of a dictionary; Kind::invalid_argument where there is none.
  [[nodiscard]] Outcome<Schema> dictionary() const {
    return detail::outcome(
        detail::made<Schema>([&](auto out, auto error) { return ardev_schema_dictionary(get(), out, error); }));
  }
  // The pairs of metadata, in their order. A key may occur twice.
  [[nodiscard]] Outcome<Metadata> metadata() const { return detail::outcome(try_metadata()); }
  // The extension type that the metadata names, if it names one.
  [[nodiscard]] Outcome<std::optional<Extension>> extension() const {
    return detail::outcome(try_read<std::optional<Extension>>([](const SchemaInfo& info) -> std::optional<Extension> {
      if (info.is_extension == 0) return std::nullopt;
      return Extension{detail::text_of(info.extension_name), detail::text_of(info.extension_parameters)};
    }));
  }

  // The same type with these pairs in place of its metadata.
  [[nodiscard]] Outcome<Schema> with_metadata(const Metadata& metadata) const {
    std::vector<ardev_pair> pairs;
    for (const auto& pair : metadata) pairs.push_back({detail::bytes_of(pair.first), detail::bytes_of(pair.second)});
    return detail::outcome(detail::made<Schema>([&](auto out, auto error) {
      return ardev_schema_with_metadata(get(), pairs.data(), pairs.size(), out, error);
    }));
  }
  // The same type marked as an extension type, such as "arrow.json".
  [[nodiscard]] Outcome<Schema> with_extension(const Extension& extension) const {
    const ardev_bytes parameters = detail::bytes_of(extension.parameters);
    return detail::outcome(detail::made<Schema>([&](auto out, auto error) {
      return ardev_schema_with_extension(get(), extension.name.c_str(), &parameters, out, error);
    }));
  }
  // The type in words, such as `struct<id: int64>`.
  [[nodiscard]] Outcome<std::string> describe() const {
    return detail::outcome(detail::written([&](auto text, auto capacity, auto size, auto error) {
      return ardev_schema_describe(get(), text, capacity, size, error);
    }));
  }

 private:
  friend class HostView;
  friend class Array;

  Result<Exported<ArrowSchema>> try_exported() const {
    return detail::exported<ArrowSchema>(
        host, [&](auto out, auto error) { return ardev_schema_export(get(), out, error); });
  }
  template <typename T, typename F>
  Result<T> try_read(F&& read) const {
    auto info =
        detail::told<SchemaInfo>([&](auto out, auto error) { return ardev_schema_inspect(get(), out, error); });
    if (!info) return info.error();
    return read(*info);
  }
  Result<std::string> try_format() const {
    return try_read<std::string>([](const SchemaInfo& info) { return std::string(info.format); });
  }
  Result<Metadata> try_metadata() const {
    auto count = try_read<size_t>([](const SchemaInfo& info) { return info.n_pairs; });
    if (!count) return count.error();
    Metadata metadata;
    for (size_t index = 0; index < *count; index++) {
      auto pair = detail::told<ardev_pair>(
          [&](auto out, auto error) { return ardev_schema_pair(get(), index, out, error); });
      if (!pair) return pair.error();
      metadata.emplace_back(detail::text_of(pair->key), detail::text_of(pair->value));
    }
    return metadata;
  }
};

// ----------------------------------------------------------------------------------------- buffers

// Bytes on a device, for arrays that this program makes.
class Buffer : public detail::Owner<ardev_buffer, ardev_buffer_free> {
 public:
  using Owner::Owner;

  // Memory of the queue's device, for work on that queue; or of the host.
  [[nodiscard]] static Outcome<Buffer> allocate(uint64_t size, Lane lane = host) {
    return detail::outcome(detail::made<Buffer>(
        lane, [&](auto out, auto error) { return ardev_buffer_allocate(lane.get(), size, out, error); }));
  }
  // Memory with a copy of these values. Waits.
  template <typename C>
  [[nodiscard]] static Outcome<Buffer> copy_of(const C& values, Lane lane = host) {
    const Span span(values.data(), values.size());
    static_assert(std::is_trivially_copyable_v<typename decltype(span)::value_type>, "only bytes are copied");
    return detail::outcome(detail::made<Buffer>(lane, [&](auto out, auto error) {
      return ardev_buffer_copy(lane.get(), span.data(), span.size() * sizeof(*span.data()), out, error);
    }));
  }
  // The memory of a std::vector or the like, without a copy: the container is kept until the last
  // use.
  template <typename C>
  [[nodiscard]] static Outcome<Buffer> wrap(C container) {
    auto* kept = new C(std::move(container));
    const void* base = kept->data();
    const uint64_t size = kept->size() * sizeof(*kept->data());
    auto release = [](void* context) { delete static_cast<C*>(context); };
    return detail::outcome(detail::made<Buffer>([&](auto out, auto error) {
      static const char nothing = 0;  // an empty container has no address
      return ardev_buffer_wrap(ARROW_DEVICE_CPU, -1, base == nullptr ? &nothing : base, size, kept, release, out,
                               error);
    }));
  }
  // Memory that this program has, at an address or in a handle. `release` is called after the last
  // use.
  template <typename F>
  [[nodiscard]] static Outcome<Buffer> wrap(ArrowDeviceType device_type, int64_t device_id, const void* base,
                                            uint64_t size, F release) {
    return detail::outcome(detail::made<Buffer>([&](auto out, auto error) {
      return ardev_buffer_wrap(device_type, device_id, base, size, detail::kept(std::move(release)),
                               detail::call_and_delete<F>, out, error);
    }));
  }
  // Memory of the application's own Vulkan allocator.
  template <typename F>
  [[nodiscard]] static Outcome<Buffer> adopt_vulkan(const Device& device, const ardev_vulkan_binding& binding,
                                                    F release) {
    return detail::outcome(detail::made<Buffer>([&](auto out, auto error) {
      return ardev_buffer_adopt_vulkan(device.get(), &binding, detail::kept(std::move(release)),
                                       detail::call_and_delete<F>, out, error);
    }));
  }

  // Where the bytes are, for work on this queue that writes them, or for the host.
  [[nodiscard]] Outcome<Place> place(Lane lane = host) {
    return detail::outcome(detail::told<Place>(
        lane, [&](auto out, auto error) { return ardev_buffer_place(get(), lane.get(), out, error); }));
  }
  // The bytes of host memory, as elements to be written. All of them have to be written before the
  // buffer becomes part of an array.
  template <typename T>
  [[nodiscard]] Outcome<Span<T>> writable() {
    return detail::outcome(try_writable<T>());
  }
  // A buffer of a part of the same bytes. From now on nobody may write to the bytes.
  [[nodiscard]] Outcome<Buffer> slice(uint64_t offset, uint64_t size) {
    return detail::outcome(detail::made<Buffer>(
        [&](auto out, auto error) { return ardev_buffer_slice(get(), offset, size, out, error); }));
  }

 private:
  template <typename T>
  Result<Span<T>> try_writable() {
    auto place = detail::told<Place>(
        [&](auto out, auto error) { return ardev_buffer_place(get(), nullptr, out, error); });
    if (!place) return place.error();
    // The library gives the place for writing; only the struct in C has it as const.
    T* data = static_cast<T*>(const_cast<void*>(place->base));
    return Span<T>(data, static_cast<size_t>(place->size) / sizeof(T));
  }
};

// ------------------------------------------------------------------------------------------ arrays

// The parts of an array that is built, in the order of the format; see `ardev_parts` for details.
struct Parts {
  int64_t length = 0;
  int64_t offset = 0;
  int64_t null_count = -1;             // -1 if it is not known
  std::vector<const Buffer*> buffers;  // nullptr for a validity bitmap that there is none of
  std::vector<const class Array*> children;
  const class Array* dictionary = nullptr;
  // When the data is complete: when this queue has done the submitted work, or after this event.
  const Queue* queue = nullptr;
  const Event* event = nullptr;
};

struct CopyOptions {
  uint64_t alignment = 0;  // 0 for the usual
  uint32_t flags = 0;      // ARDEV_COPY_...
  Lane through = host;     // a queue that reads the source, where it has to be read to the host
};

enum class Copying : int32_t {
  never = ARDEV_COPYING_NEVER,          // share, or Kind::unsupported
  if_needed = ARDEV_COPYING_IF_NEEDED,  // share where possible
  always = ARDEV_COPYING_ALWAYS         // so that nobody else has the memory
};

struct Conversion {
  Copying copying = Copying::never;
  uint32_t flags = 0;  // ARDEV_CONVERT_...
  Lane lane = host;    // a queue for copies; one is opened where none is named
};

// An array on a device: immutable, ready now or after an event. A record batch is an array of
// structs.
class Array : public detail::Owner<ardev_array, ardev_array_free> {
 public:
  using Owner::Owner;

  // Takes an array over, and checks everything that can be checked in host memory.
  [[nodiscard]] static Outcome<Array> import_from(ArrowDeviceArray* c_array, const Schema& schema) {
    return detail::outcome(detail::made<Array>(
        [&](auto out, auto error) { return ardev_array_import(c_array, schema.get(), out, error); }));
  }
  [[nodiscard]] static Outcome<Array> import_from(ArrowArray* c_array, const Schema& schema) {
    return detail::outcome(detail::made<Array>(
        [&](auto out, auto error) { return ardev_array_import_host(c_array, schema.get(), out, error); }));
  }
  // Checks a struct against its schema and leaves it as it is.
  static Outcome<void> check(const ArrowDeviceArray& c_array, const Schema& schema) {
    return detail::outcome(
        detail::done([&](auto error) { return ardev_array_check(&c_array, schema.get(), error); }));
  }
  [[nodiscard]] static Outcome<Array> build(const Schema& schema, const Parts& parts) {
    return detail::outcome(try_build(schema.get(), parts));
  }
  // An array of these numbers, none of them null: a copy, on the device of the queue or on the
  // host. The name is that of a column. Waits.
  template <typename C>
  [[nodiscard]] static Outcome<Array> of(const C& values, Lane lane = host, const std::string& name = "") {
    return detail::outcome(try_of(Span(values.data(), values.size()), lane, name));
  }
  // Such an array of any type whose values have one size (numbers, dates, decimals, fixed-size
  // binary; booleans as a byte each). `is_there` has a byte for each value, 0 for a null; if it is
  // empty, there are no nulls.
  template <typename C>
  [[nodiscard]] static Outcome<Array> from_values(const Schema& schema, const C& values,
                                                  Span<const uint8_t> is_there = {}, Lane lane = host) {
    return detail::outcome(try_from_values(schema, Span(values.data(), values.size()), is_there, lane));
  }
  // An array of text or of binary, in any layout. Each value is a std::string_view, a std::string,
  // or an optional of one of these; an empty optional is a null.
  template <typename C>
  [[nodiscard]] static Outcome<Array> from_texts(const Schema& schema, const C& values, Lane lane = host) {
    std::vector<ardev_bytes> bytes;
    for (const auto& value : values) bytes.push_back(bytes_of(value));
    return detail::outcome(detail::made<Array>(lane, [&](auto out, auto error) {
      return ardev_array_from_bytes(schema.get(), bytes.data(), bytes.size(), lane.get(), out, error);
    }));
  }
  // A record batch of these columns, which are shared, named as their types are.
  [[nodiscard]] static Outcome<Array> batch(const std::vector<const Array*>& columns) {
    return detail::outcome(try_batch(columns));
  }
  [[nodiscard]] static Outcome<Array> from_tensor(const Tensor& tensor, const Conversion& conversion = {});

  // A struct of the array for a consumer. The event of the array is handed on unchanged. Columns
  // that wait for different events need a queue to join the events; without a queue that is
  // Kind::not_ready.
  Outcome<void> export_to(ArrowDeviceArray* out, Lane lane = host) const {
    return detail::outcome(
        detail::done(lane, [&](auto error) { return ardev_array_export(get(), lane.get(), out, error); }));
  }
  [[nodiscard]] Outcome<Exported<ArrowDeviceArray>> exported(Lane lane = host) const {
    return detail::outcome(detail::exported<ArrowDeviceArray>(
        lane, [&](auto out, auto error) { return ardev_array_export(get(), lane.get(), out, error); }));
  }
  // The same without an event, for consumers that ignore events: waits for the data first.
  [[nodiscard]] Outcome<Exported<ArrowDeviceArray>> exported_settled() const {
    return detail::outcome(detail::exported<ArrowDeviceArray>(
        host, [&](auto out, auto error) { return ardev_array_export_settled(get(), out, error); }));
  }
  // The same for consumers of plain arrays in host memory.
  [[nodiscard]] Outcome<Exported<ArrowArray>> exported_host() const {
    return detail::outcome(detail::exported<ArrowArray>(
        host, [&](auto out, auto error) { return ardev_array_export_host(get(), out, error); }));
  }

  [[nodiscard]] Outcome<ArrayInfo> info() const { return detail::outcome(try_info()); }
  [[nodiscard]] Outcome<Schema> schema() const { return detail::outcome(try_schema()); }
  // A text with all that is known without reading the data, line by line.
  [[nodiscard]] Outcome<std::string> describe() const {
    return detail::outcome(detail::written([&](auto text, auto capacity, auto size, auto error) {
      return ardev_array_describe(get(), text, capacity, size, error);
    }));
  }
  // A child or the dictionary as it is, without the offset and length of the array above.
  [[nodiscard]] Outcome<Array> child(size_t index) const {
    return detail::outcome(
        detail::made<Array>([&](auto out, auto error) { return ardev_array_child(get(), index, out, error); }));
  }
  [[nodiscard]] Outcome<Array> dictionary() const {
    return detail::outcome(
        detail::made<Array>([&](auto out, auto error) { return ardev_array_dictionary(get(), out, error); }));
  }
  // A column of a record batch, with the batch's offset and length.
  [[nodiscard]] Outcome<Array> column(size_t index) const {
    return detail::outcome(
        detail::made<Array>([&](auto out, auto error) { return ardev_array_column(get(), index, out, error); }));
  }
  // `length` elements from `offset` on. Copies nothing.
  [[nodiscard]] Outcome<Array> slice(int64_t offset, int64_t length) const {
    return detail::outcome(
        detail::made<Array>([&](auto out, auto error) { return ardev_array_slice(get(), offset, length, out, error); }));
  }
  [[nodiscard]] Outcome<bool> is_ready() const {
    return detail::outcome(
        detail::told<bool>([&](auto out, auto error) { return ardev_array_is_ready(get(), out, error); }));
  }
  // Waits until the data is ready.
  Outcome<void> wait() const {
    return detail::outcome(detail::done([&](auto error) { return ardev_array_wait(get(), error); }));
  }
  // Reads all data and checks what the format demands. Waits. Memory that the host cannot read
  // needs a queue, by which all data is copied to the host first.
  Outcome<void> validate(Lane lane = host) const {
    return detail::outcome(
        detail::done(lane, [&](auto error) { return ardev_array_validate(get(), lane.get(), error); }));
  }
  // The true size of every buffer of the tree.
  [[nodiscard]] Outcome<std::vector<uint64_t>> buffer_sizes(Lane lane = host) const {
    return detail::outcome(try_buffer_sizes(lane));
  }
  // Copies to the device of the queue, in its order, or to the host. Data that is there already is
  // shared.
  [[nodiscard]] Outcome<Array> copy_to(Lane lane, const CopyOptions& options = {}) const {
    auto c_options = sized<ardev_copy_options>();
    c_options.alignment = options.alignment;
    c_options.flags = options.flags;
    c_options.through = options.through.get();
    return detail::outcome(
        detail::made<Array>(options.through.is_empty() ? options.through : lane, [&](auto out, auto error) {
          return ardev_array_copy(get(), lane.get(), &c_options, out, error);
        }));
  }

  // A copy of the array in memory of the device that other processes can open.
  [[nodiscard]] Outcome<Array> to_shareable(const Device& device) const {
    return detail::outcome(detail::made<Array>(
        [&](auto out, auto error) { return ardev_array_to_shareable(get(), device.get(), out, error); }));
  }
  // Shares the array with the process that gets the ticket, a descriptor.
  [[nodiscard]] Outcome<Shared> share() const;
  // The array of a ticket of another process. The ticket is taken over, also when the call fails.
  [[nodiscard]] static Outcome<Array> open(int ticket, const std::vector<const Device*>& devices);

  // Access to the data: for work on a queue, which waits for the array; or for the host, where
  // memory is host memory (Kind::unsupported, copy it).
  [[nodiscard]] Outcome<View> view(const Queue& queue) const;
  [[nodiscard]] Outcome<HostView> view(Host) const;

 private:
  friend class HostView;

  static ardev_bytes bytes_of(std::string_view text) noexcept {
    // What is empty is there, and has an address.
    return detail::bytes_of(text.data() == nullptr ? std::string_view("") : text);
  }
  template <typename T>
  static ardev_bytes bytes_of(const std::optional<T>& text) noexcept {
    return text ? bytes_of(std::string_view(*text)) : ardev_bytes{nullptr, 0};
  }
  template <typename T>
  static Result<Array> try_from_values(const Schema& schema, Span<T> values, Span<const uint8_t> is_there, Lane lane) {
    if (!is_there.empty() && is_there.size() != values.size()) {
      return detail::refused("there are more or fewer values than bytes that say whether they are there");
    }
    static_assert(std::is_trivially_copyable_v<std::remove_cv_t<T>>, "only bytes are copied");
    auto format = schema.try_format();
    if (!format) return format.error();
    const size_t width = *format == "b" ? 1 : detail::width_of(*format);
    if (width != 0 && width != sizeof(T)) {
      return detail::refused("the values have another size than those of the type");
    }
    return detail::made<Array>(lane, [&](auto out, auto error) {
      return ardev_array_from_values(schema.get(), values.data(), is_there.data(), values.size(), lane.get(), out,
                                     error);
    });
  }
  Result<ArrayInfo> try_info() const {
    return detail::told<ArrayInfo>([&](auto out, auto error) { return ardev_array_inspect(get(), out, error); });
  }
  Result<Schema> try_schema() const {
    return detail::made<Schema>([&](auto out, auto error) { return ardev_array_schema(get(), out, error); });
  }
  static Result<Array> try_build(const ardev_schema* schema, const Parts& parts) {
    std::vector<ardev_buffer*> buffers;
    for (const Buffer* buffer : parts.buffers) buffers.push_back(buffer == nullptr ? nullptr : buffer->get());
    std::vector<const ardev_array*> children;
    for (const Array* child : parts.children) children.push_back(child == nullptr ? nullptr : child->get());
    if (parts.queue != nullptr && !*parts.queue) return detail::no_queue();
    auto c_parts = sized<ardev_parts>();
    c_parts.schema = schema;
    c_parts.length = parts.length;
    c_parts.offset = parts.offset;
    c_parts.null_count = parts.null_count;
    c_parts.buffers = buffers.data();
    c_parts.n_buffers = buffers.size();
    c_parts.children = children.data();
    c_parts.n_children = children.size();
    c_parts.dictionary = parts.dictionary == nullptr ? nullptr : parts.dictionary->get();
    c_parts.queue = parts.queue == nullptr ? nullptr : parts.queue->get();
    c_parts.event = parts.event == nullptr ? nullptr : parts.event->get();
    return detail::made<Array>([&](auto out, auto error) { return ardev_array_build(&c_parts, out, error); });
  }
  template <typename T>
  static Result<Array> try_of(Span<const T> values, Lane lane, const std::string& name) {
    auto schema = detail::made<Schema>([&](auto out, auto error) {
      return ardev_schema_new(detail::format_of<T>(), name.c_str(), ARROW_FLAG_NULLABLE, nullptr, 0, nullptr, out,
                              error);
    });
    if (!schema) return schema.error();
    auto buffer = detail::made<Buffer>(lane, [&](auto out, auto error) {
      return ardev_buffer_copy(lane.get(), values.data(), values.size() * sizeof(T), out, error);
    });
    if (!buffer) return buffer.error();
    Parts parts;
    parts.length = static_cast<int64_t>(values.size());
    parts.null_count = 0;
    parts.buffers = {nullptr, &*buffer};
    return try_build(schema->get(), parts);
  }
  static Result<Array> try_batch(const std::vector<const Array*>& columns) {
    std::vector<Schema> fields;
    std::vector<const ardev_schema*> pointers;
    Parts parts;
    for (const Array* column : columns) {
      if (column == nullptr) return detail::refused("a column of the batch is NULL");
      auto field = column->try_schema();
      auto info = column->try_info();
      if (!field) return field.error();
      if (!info) return info.error();
      parts.length = info->length;
      pointers.push_back(field->get());
      fields.push_back(std::move(*field));
    }
    auto schema = detail::made<Schema>([&](auto out, auto error) {
      return ardev_schema_new("+s", "", 0, pointers.data(), pointers.size(), nullptr, out, error);
    });
    if (!schema) return schema.error();
    parts.null_count = 0;
    parts.buffers = {nullptr};
    parts.children = columns;
    return try_build(schema->get(), parts);
  }
  Result<std::vector<uint64_t>> try_buffer_sizes(Lane lane) const {
    std::vector<uint64_t> sizes;
    auto call = [&](auto out, auto error) {
      return ardev_array_buffer_sizes(get(), lane.get(), sizes.data(), sizes.size(), out, error);
    };
    auto info = try_info();
    if (!info) return info.error();
    sizes.resize(info->n_buffers_in_all);
    auto count = detail::told<size_t>(lane, call);
    if (!count) return count.error();
    sizes.resize(*count);
    return sizes;
  }
};

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

// Access to the data.
#include "views.hpp"

// Streams and tensors.
#include "exchange.hpp"

// Other processes.
#include "share.hpp"

#endif  // ARROW_DEVICE_DATA_HPP_
