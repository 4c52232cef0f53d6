// Arrays of one process in another process of the same machine, without a copy.
//
// `arrow_device.h` includes this file; a program includes that one.
//
//   // one process: a ticket, which any way that carries descriptors takes to the other
//   if (ardev_device_shareable(device, &shareable, &error)) goto failed;
//   if (ardev_array_to_shareable(array, shareable, &there, &error)) goto failed;
//   if (ardev_array_share(there, &ticket, &sender, &error)) goto failed;
//   if (ardev_sender_wait(sender, -1, &error)) goto failed;  // until the other has finished
//
//   // the other process
//   if (ardev_array_open(ticket, devices, n_devices, &array, &error)) goto failed;
//
// Linux has all of this. Elsewhere every function of this file is ENOSYS.
//
// A descriptor that is passed to a function (`fd`, `ticket`) is taken over, whatever the outcome:
// it is closed after a failure; otherwise when its object and all arrays that came by it are gone.
// A `ticket` that a function writes is the caller's, to be sent and closed; -1 after a failure.

#ifndef ARROW_DEVICE_SHARE_H_
#define ARROW_DEVICE_SHARE_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

// The same device, with memory that other processes can open: buffers allocated by `out`, by queues
// that it opens, and by copies to those. An ardev_allocator that the device has stays in use, and
// no other process can open what it gives. ENOSYS for a device that cannot share memory.
ARDEV_CHECK int ardev_device_shareable(const struct ardev_device* device, struct ardev_device** out,
                                       struct ardev_error* ARDEV_NULLABLE error);

// A copy in such memory of the device, in one allocation. An array that was made there needs none.
ARDEV_CHECK int ardev_array_to_shareable(const struct ardev_array* array, const struct ardev_device* device,
                                         struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

// Holds arrays for another process, until that process has finished with them.
struct ardev_sender;
// Arrays of another process.
struct ardev_receiver;

// Shares one array with whoever gets the ticket, a descriptor. ardev_array_open makes an array of
// it, once. The sender holds the array until that one is not used any more, or until the last
// descriptor of the ticket is closed, this process's included. Waits until the array is ready, and
// not for the other process. ENOSYS for an array in other memory than ardev_device_shareable gives.
ARDEV_CHECK int ardev_array_share(const struct ardev_array* array, int* ticket, struct ardev_sender** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// The array of a ticket of another process. Its memory is opened by the first of the devices that
// can open it (ENODEV if none can). Its event has passed, and nobody writes to it. Never waits. For
// a ticket of a process that is trusted there is ardev_receiver_new, which takes it as its `fd`.
ARDEV_CHECK int ardev_array_open(int ticket, const struct ardev_device* const* ARDEV_NULLABLE devices, size_t n_devices,
                                 struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

// ---- many arrays over one socket

// Host memory stays as it is. Without this, nobody can write to it any more once it was sent, this
// process included.
#define ARDEV_SENDER_WRITABLE 1

// A sender at one end of a connected stream socket (AF_UNIX).
ARDEV_CHECK int ardev_sender_new(int fd, uint32_t flags, struct ardev_sender** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

// Sends an array. Waits until the array is ready, and until the system has room for the message.
// EPROTO once the receiver has gone.
ARDEV_CHECK int ardev_sender_send(const struct ardev_sender* sender, const struct ardev_array* array,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Sends what is left of the stream, as the receiver asks for it by ardev_receiver_stream, and the
// stream's error if it fails. Waits until the receiver has finished with all of it, so call it on a
// thread of its own.
ARDEV_CHECK int ardev_sender_serve(const struct ardev_sender* sender, const struct ardev_stream* stream,
                                   struct ardev_error* ARDEV_NULLABLE error);

// How many arrays the receiver still uses; none after it has gone. Never waits. The ones that it
// has finished with are released by this call.
ARDEV_CHECK int ardev_sender_held(const struct ardev_sender* sender, size_t* out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Waits until the receiver uses none; ETIMEDOUT if it still does by then.
ARDEV_CHECK int ardev_sender_wait(const struct ardev_sender* sender, int64_t timeout,
                                  struct ardev_error* ARDEV_NULLABLE error);

// The socket, for an event loop: when it can be read, there is something for ardev_sender_held to
// look at. It stays the sender's, and is good as long as that.
ARDEV_CHECK int ardev_sender_fd(const struct ardev_sender* sender, int* out, struct ardev_error* ARDEV_NULLABLE error);

// The receiver comes to the end. What is still held then is held by a thread of the library until
// the receiver has finished.
void ardev_sender_free(struct ardev_sender* ARDEV_NULLABLE sender);

// Host memory that the sender can still write to is taken too. Without this it is ENOSYS. The
// process at the other end has to keep from writing to what it sent: docs/safety.md (UNS-38).
#define ARDEV_RECEIVER_TRUSTING 1

// A receiver at one end of a connected stream socket (AF_UNIX). Memory is opened by the first of
// the devices that can open it. What comes is checked, and no number in it is believed.
ARDEV_CHECK int ardev_receiver_new(int fd, const struct ardev_device* const* ARDEV_NULLABLE devices, size_t n_devices,
                                   uint32_t flags, struct ardev_receiver** out,
                                   struct ardev_error* ARDEV_NULLABLE error);

// Waits for the next array; NULL at the end. ETIMEDOUT if none came by then, and the next call goes
// on waiting. After another error nothing more comes. Arrays stay usable without the receiver, and
// after the end of the sender's process.
ARDEV_CHECK int ardev_receiver_receive(const struct ardev_receiver* receiver, int64_t timeout, struct ardev_array** out,
                                       struct ardev_error* ARDEV_NULLABLE error);

// What ardev_sender_serve sends, as a stream. The sender is asked for `ahead` arrays more than were
// taken out, at least one. Waits for the schema. The receiver is empty after this, and refuses
// (EINVAL) to be asked again; it is still to be freed.
ARDEV_CHECK int ardev_receiver_stream(const struct ardev_receiver* receiver, size_t ahead, struct ardev_stream** out,
                                      struct ardev_error* ARDEV_NULLABLE error);

// The socket, for an event loop: when it can be read, call ardev_receiver_receive with a timeout of
// 0 until that is ETIMEDOUT. It stays the receiver's, and is good as long as that.
ARDEV_CHECK int ardev_receiver_fd(const struct ardev_receiver* receiver, int* out,
                                  struct ardev_error* ARDEV_NULLABLE error);
void ardev_receiver_free(struct ardev_receiver* ARDEV_NULLABLE receiver);

#endif  // ARROW_DEVICE_SHARE_H_
