// Arrays of one process in another one, of arrow_device.hpp.
//
// `arrow_device.hpp` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_SHARE_HPP_
#define ARROW_DEVICE_SHARE_HPP_

#ifndef ARROW_DEVICE_DATA_HPP_
#error "include arrow_device/arrow_device.hpp"
#endif

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

// Holds arrays for another process, until that process has finished with them. After the end of the
// object, a thread of the library holds the arrays that the other process still uses.
class Sender : public detail::Owner<ardev_sender, ardev_sender_free> {
 public:
  using Owner::Owner;

  // A sender at one end of a connected Unix socket, which is taken over, whatever the outcome.
  // `flags` is ARDEV_SENDER_... .
  [[nodiscard]] static Outcome<Sender> on(int fd, uint32_t flags = 0) {
    return detail::outcome(
        detail::made<Sender>([&](auto out, auto error) { return ardev_sender_new(fd, flags, out, error); }));
  }
  // Sends an array. Waits until it is ready, and until the system has room for the message.
  Outcome<void> send(const Array& array) const {
    return detail::outcome(detail::done([&](auto error) { return ardev_sender_send(get(), array.get(), error); }));
  }
  // Sends the arrays that are left in the stream, as the receiver asks for them, and waits until
  // the receiver has finished with all of them, so call this on a thread of its own.
  Outcome<void> serve(const Stream& stream) const {
    return detail::outcome(detail::done([&](auto error) { return ardev_sender_serve(get(), stream.get(), error); }));
  }
  // How many arrays the receiver still uses. Never waits.
  [[nodiscard]] Outcome<size_t> held() const {
    return detail::outcome(
        detail::told<size_t>([&](auto out, auto error) { return ardev_sender_held(get(), out, error); }));
  }
  // Waits until the receiver uses no array; Kind::timed_out if it still does when the time is over.
  Outcome<void> wait(std::chrono::nanoseconds timeout = forever) const {
    return detail::outcome(
        detail::done([&](auto error) { return ardev_sender_wait(get(), timeout.count(), error); }));
  }
  // The socket, for an event loop. It stays the sender's.
  [[nodiscard]] Outcome<int> fd() const {
    return detail::outcome(detail::told<int>([&](auto out, auto error) { return ardev_sender_fd(get(), out, error); }));
  }
};

// An array that was shared.
struct Shared {
  int ticket;     // a descriptor of the program's, to be sent and closed
  Sender sender;  // what holds the array
};

inline Outcome<Shared> Array::share() const {
  int ticket = -1;
  auto sender =
      detail::made<Sender>([&](auto out, auto error) { return ardev_array_share(get(), &ticket, out, error); });
  if (!sender) return detail::outcome(Result<Shared>(sender.error()));
  return detail::outcome(Result<Shared>(Shared{ticket, std::move(*sender)}));
}

namespace detail {

inline std::vector<const ardev_device*> pointers_to(const std::vector<const Device*>& devices) {
  std::vector<const ardev_device*> pointers;
  for (const Device* device : devices) pointers.push_back(device == nullptr ? nullptr : device->get());
  return pointers;
}

}  // namespace detail

inline Outcome<Array> Array::open(int ticket, const std::vector<const Device*>& devices) {
  const auto pointers = detail::pointers_to(devices);
  return detail::outcome(detail::made<Array>([&](auto out, auto error) {
    return ardev_array_open(ticket, pointers.data(), pointers.size(), out, error);
  }));
}

// Arrays of another process. They stay usable without it.
class Receiver : public detail::Owner<ardev_receiver, ardev_receiver_free> {
 public:
  using Owner::Owner;

  // A receiver at one end of a connected Unix socket, which is taken over, whatever the outcome.
  // Memory is opened by the first of the devices that can open it. `flags` is ARDEV_RECEIVER_... .
  [[nodiscard]] static Outcome<Receiver> on(int fd, const std::vector<const Device*>& devices, uint32_t flags = 0) {
    const auto pointers = detail::pointers_to(devices);
    return detail::outcome(detail::made<Receiver>([&](auto out, auto error) {
      return ardev_receiver_new(fd, pointers.data(), pointers.size(), flags, out, error);
    }));
  }
  // Waits for the next array; nothing at the end. Kind::timed_out if no array came in time.
  [[nodiscard]] Outcome<std::optional<Array>> receive(std::chrono::nanoseconds timeout = forever) const {
    auto array = detail::made<Array>(
        [&](auto out, auto error) { return ardev_receiver_receive(get(), timeout.count(), out, error); });
    using Next = Result<std::optional<Array>>;
    if (!array) return detail::outcome(Next(array.error()));
    if (!*array) return detail::outcome(Next(std::optional<Array>()));
    return detail::outcome(Next(std::optional<Array>(std::move(*array))));
  }
  // From now on takes arrays that come before their data, too. Whoever uses the data waits for it,
  // at most for this time after the array came.
  Outcome<void> take_early(std::chrono::nanoseconds limit) const {
    return detail::outcome(
        detail::done([&](auto error) { return ardev_receiver_take_early(get(), limit.count(), error); }));
  }
  // A stream of the arrays that `Sender::serve` sends, which asks for `ahead` arrays more than were
  // taken out. The receiver is empty after this.
  [[nodiscard]] Outcome<Stream> stream(size_t ahead) const {
    return detail::outcome(
        detail::made<Stream>([&](auto out, auto error) { return ardev_receiver_stream(get(), ahead, out, error); }));
  }
  // The socket, for an event loop. It stays the receiver's.
  [[nodiscard]] Outcome<int> fd() const {
    return detail::outcome(
        detail::told<int>([&](auto out, auto error) { return ardev_receiver_fd(get(), out, error); }));
  }
};

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

#endif  // ARROW_DEVICE_SHARE_HPP_
