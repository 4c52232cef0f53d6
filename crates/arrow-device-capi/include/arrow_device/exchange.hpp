// Streams, tensors of DLPack, and the end of what queues still use, of arrow_device.hpp.
//
// `arrow_device.hpp` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_EXCHANGE_HPP_
#define ARROW_DEVICE_EXCHANGE_HPP_

#ifndef ARROW_DEVICE_DATA_HPP_
#error "include arrow_device/arrow_device.hpp"
#endif

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

// ----------------------------------------------------------------------------------------- streams

// The consumer's handler that an asynchronous producer gets.
class Handler {
 public:
  Handler() noexcept = default;
  explicit Handler(ArrowAsyncDeviceStreamHandler* handler) noexcept : handler_(handler) {}
  Handler(Handler&& other) noexcept : handler_(other.release()) {}
  Handler& operator=(Handler&& other) noexcept {
    ArrowAsyncDeviceStreamHandler* handler = other.release();
    end();
    handler_ = handler;
    return *this;
  }
  ~Handler() { end(); }

  // Hands the handler to the producer, which releases it. A handler that was not handed on is
  // released by this object.
  [[nodiscard]] ArrowAsyncDeviceStreamHandler* release() noexcept { return std::exchange(handler_, nullptr); }

 private:
  void end() noexcept {
    ArrowAsyncDeviceStreamHandler* handler = release();
    if (handler != nullptr && handler->release != nullptr) handler->release(handler);
  }

  ArrowAsyncDeviceStreamHandler* handler_ = nullptr;
};

struct AsyncStream;

// Arrays of one type on one type of device, one after the other:
//
//   for (Array& array : stream) use(array);           // throws what the stream fails with
//   for (Result<Array>& array : stream) use(*array);  // with ARROW_DEVICE_NO_EXCEPTIONS: an error
//                                                     // is the last
class Stream : public detail::Owner<ardev_stream, ardev_stream_free> {
 public:
  using Owner::Owner;

  [[nodiscard]] static Outcome<Stream> import_from(ArrowDeviceArrayStream* c_stream) {
    return detail::outcome(
        detail::made<Stream>([&](auto out, auto error) { return ardev_stream_import(c_stream, out, error); }));
  }
  [[nodiscard]] static Outcome<Stream> import_from(ArrowArrayStream* c_stream) {
    return detail::outcome(
        detail::made<Stream>([&](auto out, auto error) { return ardev_stream_import_host(c_stream, out, error); }));
  }
  // A stream of the arrays that `next` gives: each call returns a std::optional<Array>, which is
  // empty at the end, or a Result of one. `next` is called on any thread, and two calls never
  // overlap. An exception of `next` is the error of the call that asked for the array; no exception
  // crosses C.
  template <typename F>
  [[nodiscard]] static Outcome<Stream> from(const Schema& schema, ArrowDeviceType device_type, F next) {
    auto source = sized<ardev_source>();
    source.context = detail::kept(std::move(next));
    source.next = call_next<F>;
    source.release = [](void* context) { delete static_cast<F*>(context); };
    return detail::outcome(detail::made<Stream>(
        [&](auto out, auto error) { return ardev_stream_new(schema.get(), device_type, &source, out, error); }));
  }
  // A stream that an asynchronous producer fills, which asks for at most `window` arrays ahead.
  [[nodiscard]] static Outcome<AsyncStream> from_async(size_t window);

  [[nodiscard]] Outcome<Schema> schema() const {
    return detail::outcome(
        detail::made<Schema>([&](auto out, auto error) { return ardev_stream_schema(get(), out, error); }));
  }
  [[nodiscard]] Outcome<ArrowDeviceType> device_type() const {
    return detail::outcome(detail::told<ArrowDeviceType>(
        [&](auto out, auto error) { return ardev_stream_device_type(get(), out, error); }));
  }
  // The next array, nothing at the end. May wait for the producer.
  [[nodiscard]] Outcome<std::optional<Array>> next() const { return detail::outcome(try_next()); }

  // Exports the arrays that are left. The stream is empty after this.
  Outcome<void> export_to(ArrowDeviceArrayStream* out, Lane lane = host) const {
    return detail::outcome(
        detail::done(lane, [&](auto error) { return ardev_stream_export(get(), lane.get(), out, error); }));
  }
  [[nodiscard]] Outcome<Exported<ArrowDeviceArrayStream>> exported(Lane lane = host) const {
    return detail::outcome(detail::exported<ArrowDeviceArrayStream>(
        lane, [&](auto out, auto error) { return ardev_stream_export(get(), lane.get(), out, error); }));
  }
  // The same without events, for consumers that ignore events: waits for each array.
  [[nodiscard]] Outcome<Exported<ArrowDeviceArrayStream>> exported_settled() const {
    return detail::outcome(detail::exported<ArrowDeviceArrayStream>(
        host, [&](auto out, auto error) { return ardev_stream_export_settled(get(), out, error); }));
  }
  // The same for consumers of plain arrays in host memory.
  [[nodiscard]] Outcome<Exported<ArrowArrayStream>> exported_host() const {
    return detail::outcome(detail::exported<ArrowArrayStream>(
        host, [&](auto out, auto error) { return ardev_stream_export_host(get(), out, error); }));
  }
  // Sends the arrays that are left to the handler of an asynchronous consumer, as the consumer
  // requests them. Waits until the stream ends or the consumer cancels (Kind::cancelled), so call
  // it on a thread of its own.
  Outcome<void> drive(Handler handler) const {
    return detail::outcome(
        detail::done([&](auto error) { return ardev_stream_drive(get(), handler.release(), error); }));
  }

  // Where a loop over a stream is. Each step takes the next array out.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Outcome<Array>;
    using difference_type = std::ptrdiff_t;
    using pointer = value_type*;
    using reference = value_type&;

    explicit Iterator(const Stream* stream) : stream_(stream) { ++*this; }

    reference operator*() const { return *current_; }
    pointer operator->() const { return &*current_; }
    Iterator& operator++() {
      current_.reset();
      if (stream_ == nullptr) return *this;
      auto next = stream_->try_next();
      if (!next) {
        stream_ = nullptr;  // after an error there is nothing more
        current_.emplace(detail::outcome(Result<Array>(next.error())));
      } else if (next->has_value()) {
        current_.emplace(std::move(**next));
      }
      return *this;
    }
    void operator++(int) { ++*this; }
    [[nodiscard]] bool is_at_end() const noexcept { return !current_.has_value(); }

   private:
    const Stream* stream_;
    mutable std::optional<value_type> current_;
  };
  struct End {
    friend bool operator==(const Iterator& at, End) noexcept { return at.is_at_end(); }
    friend bool operator!=(const Iterator& at, End) noexcept { return !at.is_at_end(); }
  };

  // Takes the first array out.
  [[nodiscard]] Iterator begin() const { return Iterator(this); }
  [[nodiscard]] End end() const noexcept { return {}; }

 private:
  Result<std::optional<Array>> try_next() const {
    auto array = detail::made<Array>([&](auto out, auto error) { return ardev_stream_next(get(), out, error); });
    if (!array) return array.error();
    if (!*array) return std::optional<Array>();
    return std::optional<Array>(std::move(*array));
  }
  template <typename F>
  static int call_next(void* context, ardev_array** out, ardev_error* error) noexcept {
    *out = nullptr;
    return detail::guarded(error, [&] {
      // Of whatever was returned: an array, nothing, or a Result.
      Result<std::optional<Array>> next = (*static_cast<F*>(context))();
      if (!next) return detail::write_error(error, next.error().code(), next.error().what());
      if (next->has_value()) *out = (*next)->release();
      return 0;
    });
  }
};

// Both ends of a stream that an asynchronous producer fills.
struct AsyncStream {
  Handler handler;  // for the producer
  Stream stream;    // the arrays; its end cancels
};

inline Outcome<AsyncStream> Stream::from_async(size_t window) {
  ArrowAsyncDeviceStreamHandler* handler = nullptr;
  auto stream = detail::made<Stream>(
      [&](auto out, auto error) { return ardev_stream_from_async(window, &handler, out, error); });
  if (!stream) return detail::outcome(Result<AsyncStream>(stream.error()));
  return detail::outcome(Result<AsyncStream>(AsyncStream{Handler(handler), std::move(*stream)}));
}

// ------------------------------------------------------------------------------------------ DLPack

// Numbers of one type in any number of dimensions.
class Tensor : public detail::Owner<ardev_tensor, ardev_tensor_free> {
 public:
  using Owner::Owner;

  // Takes a tensor over. The data is ready in the order of the queue that the producer was told of;
  // with `host`, the producer has waited itself. `flags` is ARDEV_TENSOR_... .
  [[nodiscard]] static Outcome<Tensor> import_from(DLManagedTensorVersioned* c_tensor, Lane lane = host,
                                                   uint32_t flags = 0) {
    DlpackTensor owned(c_tensor);  // a lane that is refused is no reason to leak
    return detail::outcome(detail::made<Tensor>(lane, [&](auto out, auto error) {
      return ardev_tensor_import(owned.release(), lane.get(), flags, out, error);
    }));
  }
  [[nodiscard]] static Outcome<Tensor> import_from(DLManagedTensor* c_tensor, Lane lane = host, uint32_t flags = 0) {
    LegacyDlpackTensor owned(c_tensor);
    return detail::outcome(detail::made<Tensor>(lane, [&](auto out, auto error) {
      return ardev_tensor_import_legacy(owned.release(), lane.get(), flags, out, error);
    }));
  }
  // An array of numbers, or a record batch of such columns. Shares the memory, unless the
  // conversion allows a copy.
  [[nodiscard]] static Outcome<Tensor> from_array(const Array& array, const Conversion& conversion = {}) {
    const ardev_conversion c_conversion = conversion_of(conversion);
    return detail::outcome(detail::made<Tensor>(conversion.lane, [&](auto out, auto error) {
      return ardev_tensor_from_array(array.get(), &c_conversion, out, error);
    }));
  }

  // Hands the tensor to a consumer. The consumer's queue is made to wait for the data, and has to
  // stay open until the deleter has returned; or the host waits.
  [[nodiscard]] Outcome<DlpackTensor> exported(Lane lane = host, Copying copying = Copying::never) const {
    return detail::outcome(try_exported<DlpackTensor>(lane, copying, ardev_tensor_export));
  }
  // The older form, which cannot say that memory is read-only, and needs a copy of such memory.
  [[nodiscard]] Outcome<LegacyDlpackTensor> exported_legacy(Lane lane = host, Copying copying = Copying::never) const {
    return detail::outcome(try_exported<LegacyDlpackTensor>(lane, copying, ardev_tensor_export_legacy));
  }
  // The pointers in it are valid as long as the tensor object.
  [[nodiscard]] Outcome<TensorInfo> info() const { return detail::outcome(try_info()); }
  // The lengths of the dimensions; valid as long as the tensor object.
  [[nodiscard]] Outcome<Span<const int64_t>> shape() const {
    auto info = try_info();
    if (!info) return detail::outcome(Result<Span<const int64_t>>(info.error()));
    const Span<const int64_t> shape(info->shape, static_cast<size_t>(info->ndim));
    return detail::outcome(Result<Span<const int64_t>>(shape));
  }

 private:
  friend class Array;

  static ardev_conversion conversion_of(const Conversion& conversion) noexcept {
    auto c_conversion = sized<ardev_conversion>();
    c_conversion.copying = static_cast<int32_t>(conversion.copying);
    c_conversion.flags = conversion.flags;
    c_conversion.queue = conversion.lane.get();
    return c_conversion;
  }
  Result<TensorInfo> try_info() const {
    return detail::told<TensorInfo>([&](auto out, auto error) { return ardev_tensor_inspect(get(), out, error); });
  }
  template <typename T, typename F>
  Result<T> try_exported(Lane lane, Copying copying, F function) const {
    auto tensor = detail::told<typename T::pointer>(lane, [&](auto out, auto error) {
      return function(get(), lane.get(), static_cast<int32_t>(copying), out, error);
    });
    if (!tensor) return tensor.error();
    return T(*tensor);
  }
};

inline Outcome<Array> Array::from_tensor(const Tensor& tensor, const Conversion& conversion) {
  const ardev_conversion c_conversion = Tensor::conversion_of(conversion);
  return detail::outcome(detail::made<Array>(conversion.lane, [&](auto out, auto error) {
    return ardev_array_from_tensor(tensor.get(), &c_conversion, out, error);
  }));
}

// ----------------------------------------------------------------------------------------- release

// Releases what queues have passed, and returns the number of released things. Never waits.
inline size_t release_finished() noexcept { return ardev_release_finished(); }
// Waits until nothing is held back. Kind::timed_out if something still is when the time is over.
inline Outcome<void> wait_until_released(std::chrono::nanoseconds timeout = forever) {
  return detail::outcome(
      detail::done([&](auto error) { return ardev_wait_until_released(timeout.count(), error); }));
}
// How many things are held back, and how many this process will never release.
[[nodiscard]] inline size_t held_back() noexcept { return ardev_held_back(); }
[[nodiscard]] inline size_t abandoned() noexcept { return ardev_abandoned(); }
// How long an allocation that finds no memory waits for memory that is held back.
inline void set_allocation_timeout(std::chrono::nanoseconds timeout) noexcept {
  ardev_set_allocation_timeout(timeout.count());
}

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

#endif  // ARROW_DEVICE_EXCHANGE_HPP_
