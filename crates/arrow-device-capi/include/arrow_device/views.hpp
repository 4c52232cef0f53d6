// Access to the data of arrays, for work on a queue and for the host, of arrow_device.hpp.
//
// `arrow_device.hpp` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_VIEWS_HPP_
#define ARROW_DEVICE_VIEWS_HPP_

#ifndef ARROW_DEVICE_DATA_HPP_
#error "include arrow_device/arrow_device.hpp"
#endif

#include <utility>

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

// ------------------------------------------------------------------------------------------- views

// Addresses of an array's data for work on a queue. When it ends, all work on the data is
// submitted; the data stays until the queue has done that work.
class View : public detail::Owner<ardev_view, ardev_view_free> {
 public:
  using Owner::Owner;

  // A buffer of the array itself, from its beginning: the caller adds the array's offset.
  [[nodiscard]] Outcome<Place> buffer(size_t index) const {
    return detail::outcome(
        detail::told<Place>([&](auto out, auto error) { return ardev_view_buffer(get(), index, out, error); }));
  }
};

// An array's data, read by the host. The addresses are good as long as the view.
class HostView {
 public:
  HostView() = default;
  // A moved-from view has no element.
  HostView(HostView&& other) noexcept { *this = std::move(other); }
  HostView& operator=(HostView&& other) noexcept {
    if (this != &other) {
      view_ = std::move(other.view_);
      info_ = std::exchange(other.info_, {});
      format_ = std::exchange(other.format_, {});
      validity_ = std::exchange(other.validity_, nullptr);
    }
    return *this;
  }

  [[nodiscard]] int64_t length() const noexcept { return info_.length; }
  // Whether the element at `row`, less than `length()`, is not null.
  [[nodiscard]] bool is_valid(int64_t row) const noexcept {
    const auto bit = static_cast<uint64_t>(row + info_.offset);
    return validity_ == nullptr || (validity_[bit / 8] >> (bit % 8) & 1) != 0;
  }
  // The elements of an array of numbers, dates, times, decimals or fixed-size binary, from its
  // offset to its end: Kind::schema_mismatch if T does not have the size of an element. The value
  // of an element that is null may be any.
  template <typename T>
  [[nodiscard]] Outcome<Span<const T>> values() const {
    return detail::outcome(try_values<T>());
  }
  // An element of an array of text or binary with offsets: Kind::invalid_data where its offsets
  // lead out of the buffer.
  [[nodiscard]] Outcome<std::string_view> text(int64_t row) const { return detail::outcome(try_text(row)); }
  // A buffer of the array itself, from its beginning up to the array's end.
  [[nodiscard]] Outcome<Span<const unsigned char>> bytes(size_t index) const {
    return detail::outcome(try_bytes(index));
  }

 private:
  friend class Array;

  static Result<HostView> open(const Array& array) {
    HostView view;
    auto opened = detail::made<View>(
        [&](auto out, auto error) { return ardev_view_open(array.get(), nullptr, out, error); });
    if (!opened) return opened.error();
    view.view_ = std::move(*opened);
    auto info = array.try_info();
    auto schema = array.try_schema();
    if (!info) return info.error();
    if (!schema) return schema.error();
    auto format = schema->try_format();
    if (!format) return format.error();
    view.info_ = *info;
    view.format_ = std::move(*format);
    const bool has_validity = view.format_ != "n" && view.format_ != "+r" && view.format_.rfind("+u", 0) != 0;
    if (has_validity) {
      auto bytes = view.try_bytes(0);
      if (!bytes) return bytes.error();
      view.validity_ = bytes->data();
    }
    return view;
  }
  Result<Span<const unsigned char>> try_bytes(size_t index) const {
    auto place = detail::told<Place>(
        [&](auto out, auto error) { return ardev_view_buffer(view_.get(), index, out, error); });
    if (!place) return place.error();
    if (place->base == nullptr) return Span<const unsigned char>();
    return Span<const unsigned char>(static_cast<const unsigned char*>(place->base),
                                     static_cast<size_t>(place->size));
  }
  template <typename T>
  Result<Span<const T>> try_values() const {
    static_assert(std::is_trivially_copyable_v<T>, "values are bytes");
    const size_t width = detail::width_of(format_);
    if (width != sizeof(T)) {
      return Error(Kind::schema_mismatch, EINVAL,
                   "elements of the format " + format_ + " cannot be read as values of " + std::to_string(sizeof(T)) +
                       " bytes");
    }
    if (info_.length == 0) return Span<const T>();
    auto bytes = try_bytes(1);
    if (!bytes) return bytes.error();
    if (bytes->size() / width < static_cast<size_t>(info_.offset + info_.length)) {
      return Error(Kind::malformed, EINVAL, "the buffer of the values is shorter than the array");
    }
    if (reinterpret_cast<uintptr_t>(bytes->data()) % alignof(T) != 0) {
      return Error(Kind::malformed, EINVAL, "the values are not aligned as T has to be: read bytes()");
    }
    const T* values = reinterpret_cast<const T*>(bytes->data()) + info_.offset;
    return Span<const T>(values, static_cast<size_t>(info_.length));
  }
  Result<std::string_view> try_text(int64_t row) const {
    const bool is_small = format_ == "u" || format_ == "z";
    if (!is_small && format_ != "U" && format_ != "Z") {
      return Error(Kind::schema_mismatch, EINVAL, "elements of the format " + format_ + " are no text with offsets");
    }
    if (row < 0 || row >= info_.length) return detail::refused("there is no such row");
    auto offsets = try_bytes(1);
    if (!offsets) return offsets.error();
    auto data = try_bytes(2);
    if (!data) return data.error();
    const auto at = static_cast<size_t>(row + info_.offset);
    const size_t width = is_small ? sizeof(int32_t) : sizeof(int64_t);
    if (offsets->size() / width < at + 2) {
      return Error(Kind::invalid_data, EINVAL, "the buffer of the offsets is shorter than the array");
    }
    int64_t ends[2];
    if (is_small) {
      int32_t small[2];
      std::memcpy(small, offsets->data() + at * width, sizeof(small));
      for (int i = 0; i < 2; i++) ends[i] = small[i];
    } else {
      std::memcpy(ends, offsets->data() + at * width, sizeof(ends));
    }
    // Other elements' offsets say how long the buffer is, and these two may be any.
    if (ends[0] < 0 || ends[1] < ends[0] || static_cast<uint64_t>(ends[1]) > data->size()) {
      return Error(Kind::invalid_data, EINVAL,
                   "the offsets of element " + std::to_string(row) + " lead out of the buffer");
    }
    return std::string_view(reinterpret_cast<const char*>(data->data()) + ends[0],
                            static_cast<size_t>(ends[1] - ends[0]));
  }

  View view_;
  ArrayInfo info_ = {};
  std::string format_;
  const unsigned char* validity_ = nullptr;
};

inline Outcome<View> Array::view(const Queue& queue) const {
  return detail::outcome(detail::made<View>(
      queue, [&](auto out, auto error) { return ardev_view_open(get(), queue.get(), out, error); }));
}
inline Outcome<HostView> Array::view(Host) const { return detail::outcome(HostView::open(*this)); }

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

#endif  // ARROW_DEVICE_VIEWS_HPP_
