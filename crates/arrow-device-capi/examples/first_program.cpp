// A first program in C++: three numbers travel as a stream to whatever device there is, and are
// read where they arrive.
#include <arrow_device/arrow_device.hpp>

#include <cstdio>
#include <vector>

using namespace arrow_device;

// Arrays of one number each, as another library would hand them over.
static Exported<ArrowDeviceArrayStream> numbers_from(int64_t next, int64_t last) {
  Stream stream = Stream::from(Schema::of<int64_t>("number"), ARROW_DEVICE_CPU, [next, last]() mutable {
    if (next > last) return std::optional<Array>();
    return std::optional<Array>(Array::of(std::vector<int64_t>{next++}, host, "number"));
  });
  return stream.exported();
}

int main() {
  try {
    Queue queue = Device::open_any().open_queue();
    Exported<ArrowDeviceArrayStream> c_stream = numbers_from(7, 9);

    std::vector<int64_t> found;
    for (Array& array : Stream::import_from(c_stream.get())) {
      Array there = array.copy_to(queue);  // on the device, in the order of the queue
      Array back = there.copy_to(host);    // and back
      HostView view = back.view(host);
      for (int64_t number : view.values<int64_t>()) found.push_back(number);
    }
    std::printf("the numbers are %d, %d and %d\n", static_cast<int>(found.at(0)), static_cast<int>(found.at(1)),
                static_cast<int>(found.at(2)));
    wait_until_released(std::chrono::seconds(10));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
