/* A C program that exchanges bytes between two queues, first with the wait and then without it. */
#include <stdio.h>
#include <string.h>

#include "sim_c.h"

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "line %d: %s\n%s\n", __LINE__, #condition, arrow_device_sim_last_error()); \
      return 1;                                                                                \
    }                                                                                          \
  } while (0)

static int exchange(struct ArrowDeviceSim* sim, int with_wait) {
  const char text[] = "thirteen here";
  char back[sizeof text];
  void *one, *two, *memory;
  struct ArrowDeviceSimEvent* event;
  CHECK(arrow_device_sim_open_queue(sim, &one) == 0);
  CHECK(arrow_device_sim_open_queue(sim, &two) == 0);
  CHECK(arrow_device_sim_allocate(sim, sizeof text, &memory) == 0);
  CHECK(arrow_device_sim_copy_to_device(sim, one, memory, text, sizeof text) == 0);
  CHECK(arrow_device_sim_record(sim, one, &event) == 0);
  CHECK(event->magic == ARROW_DEVICE_SIM_EVENT_MAGIC);
  if (with_wait) CHECK(arrow_device_sim_wait(sim, two, event) == 0);
  CHECK(arrow_device_sim_copy_to_host(sim, two, back, memory, sizeof text) == 0);
  CHECK(arrow_device_sim_synchronize(sim, two) == 0);
  if (with_wait) CHECK(memcmp(text, back, sizeof text) == 0);
  CHECK(arrow_device_sim_synchronize(sim, one) == 0);
  arrow_device_sim_destroy_event(sim, event);
  arrow_device_sim_free(sim, memory, sizeof text);
  arrow_device_sim_close_queue(sim, one);
  arrow_device_sim_close_queue(sim, two);
  return 0;
}

int main(void) {
  struct ArrowDeviceSim* sim;
  void* memory;
  uint64_t seed;
  for (seed = 0; seed < 100; seed++) {
    CHECK(arrow_device_sim_open(seed, &sim) == 0);
    CHECK(arrow_device_sim_device_id(sim) != 0);
    CHECK(exchange(sim, 1) == 0);
    CHECK(arrow_device_sim_mistakes(sim) == 0);
    CHECK(exchange(sim, 0) == 0);
    CHECK(arrow_device_sim_mistakes(sim) == 1);
    CHECK(strstr(arrow_device_sim_last_error(), "read without order") != NULL);
    CHECK(arrow_device_sim_close(sim) == 0);
  }
  /* What is left behind is told at the end. */
  CHECK(arrow_device_sim_open(0, &sim) == 0);
  CHECK(arrow_device_sim_allocate(sim, 8, &memory) == 0);
  CHECK(arrow_device_sim_synchronize(sim, memory) != 0);
  CHECK(arrow_device_sim_mistakes(sim) == 1);
  CHECK(arrow_device_sim_close(sim) != 0);
  CHECK(strstr(arrow_device_sim_last_error(), "memory leaked") != NULL);
  CHECK(arrow_device_sim_open(0, NULL) != 0);
  CHECK(arrow_device_sim_close(NULL) == 0);
  return 0;
}
