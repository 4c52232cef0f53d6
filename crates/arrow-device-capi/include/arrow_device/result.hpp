// The basis of every class of arrow_device.hpp: errors, results, spans, and the owner of a C
// object.
//
// `arrow_device.hpp` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_RESULT_HPP_
#define ARROW_DEVICE_RESULT_HPP_

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "arrow_device.h"

#if !defined(__cpp_exceptions) && !defined(ARROW_DEVICE_NO_EXCEPTIONS)
#error "this program is compiled without exceptions: define ARROW_DEVICE_NO_EXCEPTIONS for results instead"
#endif

// The two forms have different names for the linker, so that one program may have files of both.
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
#define ARROW_DEVICE_FORM form_results
#else
#define ARROW_DEVICE_FORM form_throwing
#endif

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

// ------------------------------------------------------------------------------------------ errors

// The kind of an error; the comments of `enum ardev_kind` say whose mistake it was.
enum class Kind : int32_t {
  invalid_argument = ARDEV_KIND_INVALID_ARGUMENT,
  malformed = ARDEV_KIND_MALFORMED,
  released = ARDEV_KIND_RELEASED,
  schema_mismatch = ARDEV_KIND_SCHEMA_MISMATCH,
  invalid_data = ARDEV_KIND_INVALID_DATA,
  limit_exceeded = ARDEV_KIND_LIMIT_EXCEEDED,
  unsupported = ARDEV_KIND_UNSUPPORTED,
  driver_missing = ARDEV_KIND_DRIVER_MISSING,
  device_missing = ARDEV_KIND_DEVICE_MISSING,
  not_reachable = ARDEV_KIND_NOT_REACHABLE,
  not_ready = ARDEV_KIND_NOT_READY,
  out_of_memory = ARDEV_KIND_OUT_OF_MEMORY,
  device_lost = ARDEV_KIND_DEVICE_LOST,
  driver = ARDEV_KIND_DRIVER,
  timed_out = ARDEV_KIND_TIMED_OUT,
  cancelled = ARDEV_KIND_CANCELLED,
  panicked = ARDEV_KIND_PANICKED,
  peer = ARDEV_KIND_PEER,
  shut_down = ARDEV_KIND_SHUT_DOWN,
  work_failed = ARDEV_KIND_WORK_FAILED
};

// Why something failed. `what()` says what to do. It is thrown, or it is in a Result.
class Error : public std::runtime_error {
 public:
  Error(Kind kind, int code, const std::string& message, int64_t vendor_code = 0)
      : std::runtime_error(message), kind_(kind), code_(code), vendor_code_(vendor_code) {}
  explicit Error(const ardev_error& error)
      : Error(static_cast<Kind>(error.kind), error.code, error.message, error.vendor_code) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  // The errno value that the function in C returned.
  [[nodiscard]] int code() const noexcept { return code_; }
  // What the vendor's library returned, or 0.
  [[nodiscard]] int64_t vendor_code() const noexcept { return vendor_code_; }

 private:
  Kind kind_;
  int code_;
  int64_t vendor_code_;
};

namespace detail {

// The end of whoever asks an error for its value.
[[noreturn]] inline void fail(const Error& error) {
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
  std::fprintf(stderr, "arrow_device: the value of a result that is an error: %s\n", error.what());
  std::abort();
#else
  throw Error(error);
#endif
}

}  // namespace detail

// A value or an error. Access to a value that is not there throws the error; without exceptions the
// access prints the error and aborts, so ask `has_value()` first.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & {
    check();
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] const T& value() const& {
    check();
    return *std::get_if<0>(&state_);
  }
  // A value and not a reference, so that a loop over what a function returned is no loop over what
  // is gone.
  [[nodiscard]] T value() && {
    check();
    return std::move(*std::get_if<0>(&state_));
  }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  // The error; only where there is no value.
  [[nodiscard]] const Error& error() const {
    if (has_value()) std::abort();
    return *std::get_if<1>(&state_);
  }

 private:
  void check() const {
    if (!has_value()) detail::fail(error());
  }

  std::variant<T, Error> state_;
};

// Done, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (!has_value()) detail::fail(*error_);
  }
  [[nodiscard]] const Error& error() const {
    if (has_value()) std::abort();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

// What a function that can fail returns: the value, where errors are thrown, and a Result with
// ARROW_DEVICE_NO_EXCEPTIONS.
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
template <typename T>
using Outcome = Result<T>;
#else
template <typename T>
using Outcome = T;

// Calls `work` and returns its result or the Error that it threw, for places where an error is not
// unusual.
template <typename F>
Result<std::invoke_result_t<F&>> attempt(F&& work) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const Error& error) {
    return error;
  }
}
#endif

// ------------------------------------------------------------------------------------------- spans

// Elements that somebody else owns, one after the other in host memory. It is the same class in
// every version of C++, and converts from and to std::span.
template <typename T>
class Span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T*;

  constexpr Span() noexcept = default;
  constexpr Span(T* data, size_t size) noexcept : data_(data), size_(size) {}
  // Of an array, and of whatever has data() and size(): it has to stay as long as the span.
  template <size_t N>
  constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <typename C, typename = std::enable_if_t<
                            std::is_convertible_v<decltype(std::declval<C&>().size()), size_t> &&
                            std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<C&>().data())> (*)[],
                                                  T (*)[]>>>
  constexpr Span(C&& values) noexcept : data_(values.data()), size_(values.size()) {}

  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T* end() const noexcept { return data_ + size_; }
  // `index` is less than `size()`.
  [[nodiscard]] constexpr T& operator[](size_t index) const noexcept { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// ----------------------------------------------------------------------------------------- objects

// A struct of the C interface that grows, with zero in each member but `struct_size`.
template <typename T>
[[nodiscard]] T sized() noexcept {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

namespace detail {

// The one owner of an object of the C interface, which ends with it. It is moved and not copied;
// what was moved from is empty, and every function that gets it refuses it (EINVAL).
template <typename C, void (*Free)(C*)>
class Owner {
 public:
  using c_type = C;

  Owner() noexcept = default;
  // Takes a pointer over that a function in C gave.
  explicit Owner(C* pointer) noexcept : pointer_(pointer) {}
  Owner(Owner&& other) noexcept : pointer_(other.release()) {}
  Owner& operator=(Owner&& other) noexcept {
    C* pointer = other.release();
    reset();
    pointer_ = pointer;
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { Free(pointer_); }

  // The object, for functions in C; it stays this one's.
  [[nodiscard]] C* get() const noexcept { return pointer_; }
  // The object, which the caller frees.
  [[nodiscard]] C* release() noexcept { return std::exchange(pointer_, nullptr); }
  // Frees the object now.
  void reset() noexcept { Free(release()); }
  explicit operator bool() const noexcept { return pointer_ != nullptr; }

 private:
  C* pointer_ = nullptr;
};

template <typename T, typename = void>
struct Grows : std::false_type {};
template <typename T>
struct Grows<T, std::void_t<decltype(std::declval<T&>().struct_size)>> : std::true_type {};

// A value for a function in C to write to.
template <typename T>
T fresh() noexcept {
  if constexpr (Grows<T>::value) {
    return sized<T>();
  } else {
    return T{};
  }
}

// The three ways to call a function in C: for nothing but its success, for an object, for a value.
template <typename F>
Result<void> done(F&& call) {
  ardev_error error;
  if (call(&error) != 0) return Error(error);
  return {};
}

template <typename T, typename F>
Result<T> made(F&& call) {
  ardev_error error;
  typename T::c_type* out = nullptr;
  if (call(&out, &error) != 0) return Error(error);
  return T(out);
}

template <typename T, typename F>
Result<T> told(F&& call) {
  ardev_error error;
  T out = fresh<T>();
  if (call(&out, &error) != 0) return Error(error);
  return out;
}

// A text, of a function that writes texts as snprintf does.
template <typename F>
Result<std::string> written(F&& call) {
  auto size = told<size_t>([&](size_t* out, ardev_error* error) { return call(nullptr, size_t{0}, out, error); });
  if (!size) return size.error();
  std::string text(*size, '\0');
  auto again = told<size_t>([&](size_t* out, ardev_error* error) { return call(&text[0], text.size(), out, error); });
  if (!again) return again.error();
  text.resize(std::strlen(text.c_str()));
  return text;
}

// The last step of every public function: throws the error, or hands the result on.
template <typename T>
Outcome<T> outcome(Result<T> result) {
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
  return result;
#else
  return std::move(result).value();
#endif
}

inline Error refused(const char* message) { return Error(Kind::invalid_argument, EINVAL, message); }

// ---- callables for C

// Writes why a callback failed, and returns what the callback is to return.
inline int write_error(ardev_error* error, int code, const char* message) noexcept {
  if (error != nullptr) std::snprintf(error->message, sizeof(error->message), "%s", message);
  return code == 0 ? EIO : code;
}

// Calls what a program gave. No exception leaves this function.
template <typename F>
int guarded(ardev_error* error, F&& work) noexcept {
#ifdef __cpp_exceptions
  try {
    return work();
  } catch (const Error& thrown) {
    return write_error(error, thrown.code(), thrown.what());
  } catch (const std::bad_alloc&) {
    return write_error(error, ENOMEM, "a callback found no memory");
  } catch (const std::exception& thrown) {
    return write_error(error, EIO, thrown.what());
  } catch (...) {
    return write_error(error, EIO, "a callback threw something that is no std::exception");
  }
#else
  (void)error;
  return work();
#endif
}

// Something that is called once and gone then, as the `context` of a `release`.
template <typename F>
void* kept(F&& work) {
  return new std::decay_t<F>(std::forward<F>(work));
}

template <typename F>
void call_and_delete(void* context) noexcept {
  F* work = static_cast<F*>(context);
  (void)guarded(nullptr, [&] {
    (*work)();
    return 0;
  });
  delete work;
}

}  // namespace detail
}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

#endif  // ARROW_DEVICE_RESULT_HPP_
