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
// A descriptor that is passed to a function (`fd`, `ticket`) is taken over, also when the function
// fails: it is closed after a failure, or else once its object and all arrays that came by it are
// gone. A `ticket` that a function writes belongs to the caller, who sends and closes it; -1 after
// a failure.

#ifndef ARROW_DEVICE_SHARE_H_
#define ARROW_DEVICE_SHARE_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

// The same device, but `out`, the queues that it opens, and copies to these queues allocate memory
// that other processes can open. If the device has an ardev_allocator, that allocator stays in use,
// and no other process can open its memory. ENOSYS for a device that cannot share memory.
ARDEV_CHECK int ardev_device_shareable(const struct ardev_device* device, struct ardev_device** out,
                                       struct ardev_error* ARDEV_NULLABLE error);

// Copies an array to such memory of the device, into one allocation. An array that was made in such
// memory needs no copy. Waits where ardev_array_copy waits, and for a copy to the host.
ARDEV_CHECK int ardev_array_to_shareable(const struct ardev_array* array, const struct ardev_device* device,
                                         struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

// Holds arrays for another process, until that process has finished with them.
struct ardev_sender;
// Arrays of another process.
struct ardev_receiver;

// Shares one array with the process that gets the ticket, a descriptor. ardev_array_open makes an
// array of the ticket, once. The sender holds its array until that array is not used any more, or
// until the last descriptor of the ticket is closed, this process's included. Waits until the array
// is ready, but not for the other process. ENOSYS for an array that is not in memory of a device by
// ardev_device_shareable, and for memory that only a sender with ARDEV_SENDER_TRUSTING sends.
ARDEV_CHECK int ardev_array_share(const struct ardev_array* array, int* ticket, struct ardev_sender** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// The array of a ticket of another process. Its memory is opened by the first of the devices that
// can open it (ENODEV if none can). The data is ready, and nobody writes to it. Never waits. For a
// ticket of a process that is trusted, pass the ticket to ardev_receiver_new as its `fd`.
ARDEV_CHECK int ardev_array_open(int ticket, const struct ardev_device* const* ARDEV_NULLABLE devices, size_t n_devices,
                                 struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

// ---- many arrays over one socket

// Host memory that is sent stays writable. Without this flag, nobody can write to host memory any
// more once it was sent, not even this process.
#define ARDEV_SENDER_WRITABLE 1
// Arrays are sent before they are ready, to a receiver with ardev_receiver_take_early. Host memory
// is waited for all the same.
#define ARDEV_SENDER_EARLY 2
// Also sends memory that every process which gets it can write to: that of Vulkan, CUDA and ROCm
// devices, which is ENOSYS without this flag. No process that gets the memory may write there:
// docs/safety.md (UNS-38).
#define ARDEV_SENDER_TRUSTING 4

// `flags` are any of the above.
// A sender at one end of a connected stream socket (AF_UNIX).
ARDEV_CHECK int ardev_sender_new(int fd, uint32_t flags, struct ardev_sender** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

// Sends an array. Waits until the array is ready, but for ARDEV_SENDER_EARLY, and until the system
// has room for the message. EPROTO once the receiver has gone.
ARDEV_CHECK int ardev_sender_send(const struct ardev_sender* sender, const struct ardev_array* array,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Sends the arrays that are left in the stream, as the receiver asks for them by
// ardev_receiver_stream, and the error of the stream if the stream fails. Waits until the receiver
// has finished with all arrays, so call this on a thread of its own.
ARDEV_CHECK int ardev_sender_serve(const struct ardev_sender* sender, const struct ardev_stream* stream,
                                   struct ardev_error* ARDEV_NULLABLE error);

// Writes how many arrays the receiver still uses: 0 after the receiver has gone. Never waits.
// Releases the arrays that the receiver has finished with.
ARDEV_CHECK int ardev_sender_held(const struct ardev_sender* sender, size_t* out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Waits until the receiver uses no array; ETIMEDOUT if it still does when the time is over.
ARDEV_CHECK int ardev_sender_wait(const struct ardev_sender* sender, int64_t timeout,
                                  struct ardev_error* ARDEV_NULLABLE error);

// The socket, for an event loop: when the socket can be read, call ardev_sender_held. The socket
// belongs to the sender, and is valid as long as the sender.
ARDEV_CHECK int ardev_sender_fd(const struct ardev_sender* sender, int* out, struct ardev_error* ARDEV_NULLABLE error);

// Frees the sender; the receiver then comes to the end. A thread of the library holds the arrays
// that the receiver still uses until the receiver has finished.
void ardev_sender_free(struct ardev_sender* ARDEV_NULLABLE sender);

// The receiver also takes host memory that the sender can still write to, and memory of Vulkan,
// CUDA and ROCm devices. Without this flag such memory is ENOSYS. The process at the other end must
// not write to memory that it has sent: docs/safety.md (UNS-38).
#define ARDEV_RECEIVER_TRUSTING 1
// Arrays that come can be sent on to a third process, by ardev_array_share and by a sender of this
// process, without a copy, if their memory is host memory to which nobody can write any more. Each
// allocation that comes then costs a descriptor as long as it is used.
#define ARDEV_RECEIVER_PASSING_ON 2

// A receiver at one end of a connected stream socket (AF_UNIX). Memory is opened by the first of
// the devices that can open it. Every message, and every number in it, is checked. `flags` are any
// of the above.
ARDEV_CHECK int ardev_receiver_new(int fd, const struct ardev_device* const* ARDEV_NULLABLE devices, size_t n_devices,
                                   uint32_t flags, struct ardev_receiver** out,
                                   struct ardev_error* ARDEV_NULLABLE error);

// Waits for the next array; NULL at the end. ETIMEDOUT if no array came in time; the next call then
// waits again. After any other error nothing more comes. Arrays stay usable without the receiver,
// and after the end of the sender's process.
ARDEV_CHECK int ardev_receiver_receive(const struct ardev_receiver* receiver, int64_t timeout, struct ardev_array** out,
                                       struct ardev_error* ARDEV_NULLABLE error);

// The receiver then also takes arrays that come before their data, of a sender with
// ARDEV_SENDER_EARLY; without this such an array is ENOSYS. Whoever uses the data of such an array
// waits for it, at most for this time after the array came: ENODATA if the data did not come by
// then, if the sender's work failed, or if the sender's process ended before. Call this before the
// first array is received.
ARDEV_CHECK int ardev_receiver_take_early(const struct ardev_receiver* receiver, int64_t limit,
                                          struct ardev_error* ARDEV_NULLABLE error);

// A stream of the arrays that ardev_sender_serve sends. The stream asks the sender for `ahead`
// arrays, at least one, more than were taken out. Waits for the schema. The receiver is then empty,
// and further calls with it are EINVAL; it still has to be freed.
ARDEV_CHECK int ardev_receiver_stream(const struct ardev_receiver* receiver, size_t ahead, struct ardev_stream** out,
                                      struct ardev_error* ARDEV_NULLABLE error);

// The socket, for an event loop: when the socket can be read, call ardev_receiver_receive with a
// timeout of 0 until the result is ETIMEDOUT. The socket belongs to the receiver, and is valid as
// long as the receiver.
ARDEV_CHECK int ardev_receiver_fd(const struct ardev_receiver* receiver, int* out,
                                  struct ardev_error* ARDEV_NULLABLE error);
void ardev_receiver_free(struct ardev_receiver* ARDEV_NULLABLE receiver);

#endif  // ARROW_DEVICE_SHARE_H_
