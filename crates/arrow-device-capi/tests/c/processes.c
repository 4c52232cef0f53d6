// Two processes that share arrays. The second one is this program again, told by its arguments what
// to do with the descriptor that it inherits.
#define _POSIX_C_SOURCE 200809L

#include <arrow_device/arrow_device.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAYS 100

static struct ardev_error error;
static struct ardev_device* host;
static const struct ardev_device* devices[1];
static struct ardev_queue* shareable;

#define MUST(call)                                                              \
  do {                                                                          \
    if ((call) != 0) {                                                          \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.message); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)
#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

static void open_host(void) {
  struct ardev_device* with_shareable_memory;
  MUST(ardev_device_open(ARROW_DEVICE_CPU, -1, &host, &error));
  MUST(ardev_device_shareable(host, &with_shareable_memory, &error));
  MUST(ardev_queue_open(with_shareable_memory, &shareable, &error));
  ardev_device_free(with_shareable_memory);
  devices[0] = host;
}

static void close_host(void) {
  ardev_queue_free(shareable);
  ardev_device_free(host);
}

static uint64_t allocated(void) {
  struct ardev_held held;
  memset(&held, 0, sizeof(held));
  held.struct_size = sizeof(held);
  MUST(ardev_device_held(host, &held, &error));
  return held.allocated;
}

static int descriptors(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static struct ardev_schema* int64(void) {
  struct ardev_schema* schema;
  MUST(ardev_schema_new("l", "x", 0, NULL, 0, NULL, &schema, &error));
  return schema;
}

// One number, twice, in memory that other processes can open.
static struct ardev_array* twice(int64_t number) {
  struct ardev_schema* schema = int64();
  struct ardev_array* array;
  int64_t numbers[2];
  numbers[0] = numbers[1] = number;
  MUST(ardev_array_from_values(schema, numbers, NULL, 2, shareable, &array, &error));
  ardev_schema_free(schema);
  return array;
}

static void check_is_twice(const struct ardev_array* array, int64_t number) {
  struct ardev_view* view;
  struct ardev_place place;
  MUST(ardev_array_validate(array, NULL, &error));
  MUST(ardev_view_open(array, NULL, &view, &error));
  MUST(ardev_view_buffer(view, 1, &place, &error));
  CHECK(((const int64_t*)place.base)[0] == number && ((const int64_t*)place.base)[1] == number);
  ardev_view_free(view);
}

static pid_t start(const char* what, int fd);
static int end_of(pid_t child);

// ---- the second process

static int second(const char* what, int fd) {
  struct ardev_receiver* receiver;
  struct ardev_array* array;
  open_host();
  if (strcmp(what, "ticket") == 0) {
    MUST(ardev_array_open(fd, devices, 1, &array, &error));
    check_is_twice(array, 7);
    ardev_array_free(array);
    CHECK(fcntl(fd, F_GETFD) == -1);
  } else if (strcmp(what, "killed") == 0) {
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    MUST(ardev_receiver_receive(receiver, -1, &array, &error));
    kill(getpid(), SIGKILL);
  } else if (strcmp(what, "arrays") == 0) {
    // As an event loop does it.
    int64_t count = 0;
    struct pollfd polled;
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    polled.events = POLLIN;
    MUST(ardev_receiver_fd(receiver, &polled.fd, &error));
    for (;;) {
      int code = ardev_receiver_receive(receiver, 0, &array, &error);
      if (code == ETIMEDOUT) {
        CHECK(array == NULL && poll(&polled, 1, -1) == 1);
        continue;
      }
      CHECK(code == 0);
      if (array == NULL) break;
      check_is_twice(array, count++);
      ardev_array_free(array);
    }
    CHECK(count == ARRAYS);
    ardev_receiver_free(receiver);
  } else if (strcmp(what, "stream") == 0) {
    // By way of the C struct, as another library would read it.
    int64_t count = 0;
    struct ardev_stream* stream;
    struct ArrowDeviceArrayStream c_stream;
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    MUST(ardev_receiver_stream(receiver, 4, &stream, &error));
    CHECK(ardev_receiver_receive(receiver, 0, &array, &error) == EINVAL);
    CHECK(ardev_receiver_take_early(receiver, -1, &error) == EINVAL);
    ardev_receiver_free(receiver);
    MUST(ardev_stream_export(stream, NULL, &c_stream, &error));
    ardev_stream_free(stream);
    for (;;) {
      struct ArrowDeviceArray c_array;
      struct ardev_schema* schema = int64();
      CHECK(c_stream.get_next(&c_stream, &c_array) == 0);
      if (c_array.array.release == NULL) {
        ardev_schema_free(schema);
        break;
      }
      CHECK(c_array.device_type == ARROW_DEVICE_CPU);
      MUST(ardev_array_import(&c_array, schema, &array, &error));
      check_is_twice(array, count++);
      ardev_array_free(array);
      ardev_schema_free(schema);
    }
    c_stream.release(&c_stream);
    CHECK(count == ARRAYS);
  } else if (strcmp(what, "writable") == 0) {
    // Whoever does not trust refuses what the other side can still write to.
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    CHECK(ardev_receiver_receive(receiver, -1, &array, &error) == ENOSYS && array == NULL);
    ardev_receiver_free(receiver);
  } else if (strcmp(what, "trusting") == 0) {
    MUST(ardev_receiver_new(fd, devices, 1, ARDEV_RECEIVER_TRUSTING, &receiver, &error));
    MUST(ardev_receiver_receive(receiver, -1, &array, &error));
    check_is_twice(array, 7);
    ardev_array_free(array);
    ardev_receiver_free(receiver);
  } else if (strcmp(what, "keeps") == 0) {
    // What was not received for it is not sent on.
    int ticket;
    struct ardev_sender* sender;
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    MUST(ardev_receiver_receive(receiver, -1, &array, &error));
    CHECK(ardev_array_share(array, &ticket, &sender, &error) == ENOSYS && strstr(error.message, "pass it on") != NULL);
    ardev_array_free(array);
    ardev_receiver_free(receiver);
  } else if (strcmp(what, "passes on") == 0) {
    // The third process opens the memory of the first one, which holds it as long.
    int ticket;
    pid_t third;
    struct ardev_sender* sender;
    const int before = descriptors();
    MUST(ardev_receiver_new(fd, devices, 1, ARDEV_RECEIVER_PASSING_ON, &receiver, &error));
    MUST(ardev_receiver_receive(receiver, -1, &array, &error));
    MUST(ardev_array_share(array, &ticket, &sender, &error));
    CHECK(descriptors() == before + 3);  // that of the memory, and both of the ticket
    ardev_array_free(array);
    third = start("ticket", ticket);
    MUST(ardev_sender_wait(sender, -1, &error));
    CHECK(end_of(third) == 0 && allocated() == 0);
    ardev_sender_free(sender);
    ardev_receiver_free(receiver);
    CHECK(descriptors() == before - 1);
  } else if (strcmp(what, "early") == 0) {
    MUST(ardev_receiver_new(fd, devices, 1, 0, &receiver, &error));
    MUST(ardev_receiver_take_early(receiver, 1000000000, &error));
    MUST(ardev_receiver_receive(receiver, -1, &array, &error));
    check_is_twice(array, 7);
    ardev_array_free(array);
    ardev_receiver_free(receiver);
  } else {
    return 2;
  }
  close_host();
  return 0;
}

// ---- the first process

// Starts the second process with a descriptor, which is closed here.
static pid_t start(const char* what, int fd) {
  char number[16];
  char* arguments[4];
  pid_t child;
  char* copy = strdup(what);
  CHECK(copy != NULL);
  snprintf(number, sizeof(number), "%d", fd);
  arguments[0] = copy;
  arguments[1] = copy;
  arguments[2] = number;
  arguments[3] = NULL;
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    fcntl(fd, F_SETFD, 0);
    execv("/proc/self/exe", arguments);
    _exit(3);
  }
  free(copy);
  close(fd);
  return child;
}

static int end_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// Starts the second process with one end of a connection, and gives the other one.
static int connected(const char* what, pid_t* child) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  *child = start(what, ends[1]);
  return ends[0];
}

static void a_ticket_is_opened_by_another_program(void) {
  struct ardev_array* array = twice(7);
  struct ardev_sender* sender;
  size_t held;
  int ticket;
  pid_t child;
  MUST(ardev_array_share(array, &ticket, &sender, &error));
  ardev_array_free(array);
  MUST(ardev_sender_held(sender, &held, &error));
  CHECK(held == 1);
  CHECK(ardev_sender_wait(sender, 0, &error) == ETIMEDOUT);
  child = start("ticket", ticket);
  MUST(ardev_sender_wait(sender, -1, &error));
  CHECK(end_of(child) == 0);
  ardev_sender_free(sender);
}

static void a_ticket_that_is_lost_releases_its_array(void) {
  struct ardev_array* array = twice(7);
  struct ardev_sender* sender;
  int ticket;
  MUST(ardev_array_share(array, &ticket, &sender, &error));
  ardev_array_free(array);
  close(ticket);
  MUST(ardev_sender_wait(sender, -1, &error));
  ardev_sender_free(sender);
}

static void arrays_are_received_by_an_event_loop(void) {
  struct ardev_sender* sender;
  struct pollfd polled;
  size_t held;
  pid_t child;
  int64_t i;
  const int fd = connected("arrays", &child);
  MUST(ardev_sender_new(fd, 0, &sender, &error));
  for (i = 0; i < ARRAYS; i++) {
    struct ardev_array* array = twice(i);
    MUST(ardev_sender_send(sender, array, &error));
    ardev_array_free(array);
  }
  polled.events = POLLIN;
  MUST(ardev_sender_fd(sender, &polled.fd, &error));
  CHECK(polled.fd == fd);
  do {
    CHECK(poll(&polled, 1, -1) == 1);
    MUST(ardev_sender_held(sender, &held, &error));
  } while (held > 0);
  // The end of the sender is the end for the receiver.
  ardev_sender_free(sender);
  CHECK(end_of(child) == 0);
}

struct counter {
  int64_t next;
};

static int next_array(void* context, struct ardev_array** out, struct ardev_error* failure) {
  struct counter* counter = (struct counter*)context;
  (void)failure;
  *out = counter->next == ARRAYS ? NULL : twice(counter->next++);
  return 0;
}

static void a_stream_is_served(void) {
  struct ardev_sender* sender;
  struct ardev_stream* stream;
  struct ardev_source source;
  struct ardev_schema* schema = int64();
  struct counter counter;
  pid_t child;
  memset(&source, 0, sizeof(source));
  memset(&counter, 0, sizeof(counter));
  source.struct_size = sizeof(source);
  source.context = &counter;
  source.next = next_array;
  MUST(ardev_stream_new(schema, ARROW_DEVICE_CPU, &source, &stream, &error));
  ardev_schema_free(schema);
  MUST(ardev_sender_new(connected("stream", &child), 0, &sender, &error));
  MUST(ardev_sender_serve(sender, stream, &error));
  ardev_stream_free(stream);
  ardev_sender_free(sender);
  CHECK(end_of(child) == 0);
}

static void a_process_that_is_killed_leaves_nothing_behind(void) {
  struct ardev_sender* sender;
  struct ardev_array* array;
  pid_t child;
  const int before = descriptors();
  const uint64_t memory = allocated();
  MUST(ardev_sender_new(connected("killed", &child), 0, &sender, &error));
  array = twice(7);
  CHECK(allocated() > memory);
  MUST(ardev_sender_send(sender, array, &error));
  ardev_array_free(array);
  MUST(ardev_sender_wait(sender, -1, &error));
  CHECK(WIFSIGNALED(end_of(child)));
  // Whatever is sent now reaches nobody.
  array = twice(7);
  CHECK(ardev_sender_send(sender, array, &error) == EPROTO && error.kind == ARDEV_KIND_PEER);
  ardev_array_free(array);
  ardev_sender_free(sender);
  CHECK(descriptors() == before && allocated() == memory);
}

static void what_is_writable_is_for_those_who_trust(void) {
  static const char* const modes[2] = {"writable", "trusting"};
  int i;
  for (i = 0; i < 2; i++) {
    struct ardev_sender* sender;
    struct ardev_array* array = twice(7);
    pid_t child;
    MUST(ardev_sender_new(connected(modes[i], &child), ARDEV_SENDER_WRITABLE, &sender, &error));
    MUST(ardev_sender_send(sender, array, &error));
    MUST(ardev_sender_wait(sender, -1, &error));
    CHECK(end_of(child) == 0);
    ardev_array_free(array);
    ardev_sender_free(sender);
  }
}

static void what_was_received_for_it_goes_on_to_a_third_program(void) {
  static const char* const modes[3] = {"keeps", "passes on", "early"};
  static const uint32_t flags[3] = {0, 0, ARDEV_SENDER_EARLY};
  int i;
  for (i = 0; i < 3; i++) {
    struct ardev_sender* sender;
    struct ardev_array* array;
    pid_t child;
    MUST(ardev_sender_new(connected(modes[i], &child), flags[i], &sender, &error));
    // Made after the fork, so that no child has the memory when it is fixed.
    array = twice(7);
    MUST(ardev_sender_send(sender, array, &error));
    ardev_array_free(array);
    MUST(ardev_sender_wait(sender, -1, &error));
    CHECK(end_of(child) == 0);
    ardev_sender_free(sender);
  }
}

static void descriptors_are_taken_over_whatever_the_outcome(void) {
  struct ardev_sender* sender;
  struct ardev_receiver* receiver;
  struct ardev_array* array;
  const struct ardev_device* none[1] = {NULL};
  const int before = descriptors();
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(ardev_sender_new(ends[0], 8, &sender, &error) == EINVAL && sender == NULL);
  CHECK(ardev_receiver_new(ends[1], none, 1, 0, &receiver, &error) == EINVAL && receiver == NULL);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(ardev_array_open(ends[0], devices, 1, &array, &error) == EINVAL && array == NULL);
  CHECK(ardev_sender_new(ends[1], 0, NULL, &error) == EINVAL);
  // A descriptor that is no socket.
  CHECK(ardev_array_open(open("/dev/null", O_RDONLY), devices, 1, &array, &error) != 0 && array == NULL);
  CHECK(ardev_sender_new(-1, 0, &sender, &error) == EINVAL);
  CHECK(descriptors() == before);
}

static void what_no_process_can_open_is_refused(void) {
  struct ardev_schema* schema = int64();
  struct ardev_array* array;
  struct ardev_sender* sender;
  const int64_t number = 1;
  int ticket = 0;
  MUST(ardev_array_from_values(schema, &number, NULL, 1, NULL, &array, &error));
  CHECK(ardev_array_share(array, &ticket, &sender, &error) == ENOSYS && ticket == -1 && sender == NULL);
  ardev_array_free(array);
  ardev_schema_free(schema);
}

int main(int argc, char** argv) {
  int before;
  uint64_t memory;
  if (argc == 3) return second(argv[1], atoi(argv[2]));
  open_host();
  before = descriptors();
  memory = allocated();
  a_ticket_is_opened_by_another_program();
  a_ticket_that_is_lost_releases_its_array();
  arrays_are_received_by_an_event_loop();
  a_stream_is_served();
  a_process_that_is_killed_leaves_nothing_behind();
  what_is_writable_is_for_those_who_trust();
  what_was_received_for_it_goes_on_to_a_third_program();
  descriptors_are_taken_over_whatever_the_outcome();
  what_no_process_can_open_is_refused();
  CHECK(descriptors() == before && allocated() == memory);
  close_host();
  puts("all is well");
  return 0;
}
