// What the programs of this folder share: checks that hold in both forms of arrow_device.hpp.
#pragma once

#include <arrow_device/arrow_device.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

// The value of what may fail, in either form, and the error of what fails.
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
#define MUST(...) (__VA_ARGS__).value()
template <typename F>
arrow_device::Error error_of(F&& work, int line = __builtin_LINE()) {
  auto result = work();
  if (result) std::fprintf(stderr, "line %d does not fail\n", line);
  CHECK(!result);
  return result.error();
}
#else
#define MUST(...) (__VA_ARGS__)
template <typename F>
arrow_device::Error error_of(F&& work, int line = __builtin_LINE()) {
  auto result = arrow_device::attempt(work);
  if (result) std::fprintf(stderr, "line %d does not fail\n", line);
  CHECK(!result);
  return result.error();
}
#endif

using Numbers = std::vector<int64_t>;

inline Numbers numbers_of(const arrow_device::Array& array) {
  arrow_device::HostView view = MUST(array.view(arrow_device::host));
  Numbers numbers;
  for (int64_t number : MUST(view.values<int64_t>())) numbers.push_back(number);
  return numbers;
}

// Calls nothing and counts how often it was called, and how many of it there are.
struct Counted {
  static inline int calls = 0;
  void operator()() const { ++calls; }
};
