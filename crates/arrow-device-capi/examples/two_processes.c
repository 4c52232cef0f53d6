// Two processes and one array: the first one makes numbers in memory that other processes can open,
// and the second one adds them up where they lie. Only descriptors and a short message cross.
//
// Here the second process is a child that begins before the library is used. It may be any process
// at the other end of a Unix socket.
#define _POSIX_C_SOURCE 200809L

#include <arrow_device/arrow_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int code, const struct ardev_error* error) {
  if (code != 0) {
    fprintf(stderr, "%s\n", error->message);
    exit(1);
  }
}

// The second process: all it was given is its end of the connection.
static int add_up(int fd) {
  struct ardev_error error;
  struct ardev_device* host;
  const struct ardev_device* devices[1];
  struct ardev_receiver* receiver;
  struct ardev_array* array;
  must(ardev_device_open(ARROW_DEVICE_CPU, -1, &host, &error), &error);
  devices[0] = host;
  must(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error), &error);
  for (;;) {
    struct ardev_view* view;
    struct ardev_place place;
    int64_t sum = 0;
    int i;
    must(ardev_receiver_receive(receiver, -1, &array, &error), &error);
    if (array == NULL) break;
    // What comes from another process is of the type that it says, and may be wrong in itself.
    must(ardev_array_validate(array, NULL, &error), &error);
    must(ardev_view_open(array, NULL, &view, &error), &error);
    must(ardev_view_buffer(view, 1, &place, &error), &error);
    for (i = 0; i < (int)(place.size / 8); i++) sum += ((const int64_t*)place.base)[i];
    printf("process two: the sum is %d\n", (int)sum);
    ardev_view_free(view);
    ardev_array_free(array);  // the first process is told that the array is not used any more
  }
  ardev_receiver_free(receiver);
  ardev_device_free(host);
  return 0;
}

// The first process.
static void send_numbers(int fd) {
  const int64_t numbers[4] = {1, 2, 3, 4};
  struct ardev_error error;
  struct ardev_device *host, *shareable;
  struct ardev_queue* queue;
  struct ardev_schema* schema;
  struct ardev_array* array;
  struct ardev_sender* sender;
  must(ardev_device_open(ARROW_DEVICE_CPU, -1, &host, &error), &error);
  must(ardev_device_shareable(host, &shareable, &error), &error);
  must(ardev_queue_open(shareable, &queue, &error), &error);
  must(ardev_schema_new("l", "numbers", 0, NULL, 0, NULL, &schema, &error), &error);
  must(ardev_array_from_values(schema, numbers, NULL, 4, queue, &array, &error), &error);
  must(ardev_sender_new(fd, 0, &sender, &error), &error);
  must(ardev_sender_send(sender, array, &error), &error);
  ardev_array_free(array);  // the sender holds it
  must(ardev_sender_wait(sender, -1, &error), &error);
  printf("process one: the other one has finished with the array\n");
  ardev_sender_free(sender);  // the end of what comes
  ardev_schema_free(schema);
  ardev_queue_free(queue);
  ardev_device_free(shareable);
  ardev_device_free(host);
}

int main(void) {
  int ends[2], status;
  pid_t child;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    close(ends[0]);
    return add_up(ends[1]);
  }
  close(ends[1]);
  send_numbers(ends[0]);
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
