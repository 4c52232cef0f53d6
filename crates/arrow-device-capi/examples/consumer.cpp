// A consumer: takes two C structs that somebody else filled, whatever device the data is on, and
// adds its numbers up.
#include <arrow_device/arrow_device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

// ---- the producer, which knows nothing of this library

struct Numbers {
  int32_t values[4] = {10, 20, 30, 40};
  const void* buffers[2] = {nullptr, values};
};

static void produce(ArrowSchema* c_schema, ArrowDeviceArray* c_array) {
  *c_schema = {};
  c_schema->format = "i";
  c_schema->release = [](ArrowSchema* schema) { schema->release = nullptr; };
  auto* numbers = new Numbers;
  *c_array = {};
  c_array->array.length = 4;
  c_array->array.n_buffers = 2;
  c_array->array.buffers = numbers->buffers;
  c_array->array.private_data = numbers;
  c_array->array.release = [](ArrowArray* array) {
    delete static_cast<Numbers*>(array->private_data);
    array->release = nullptr;
  };
  c_array->device_type = ARROW_DEVICE_CPU;
  c_array->device_id = -1;
}

// ---- the consumer

// Objects that end by themselves.
struct Free {
  void operator()(ardev_schema* it) const { ardev_schema_free(it); }
  void operator()(ardev_array* it) const { ardev_array_free(it); }
  void operator()(ardev_view* it) const { ardev_view_free(it); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

static void must(int code, const ardev_error& error) {
  if (code != 0) throw std::runtime_error(error.message);
}

static int64_t sum(ArrowSchema* c_schema, ArrowDeviceArray* c_array) {
  ardev_error error;
  ardev_schema* schema = nullptr;
  must(ardev_schema_import(c_schema, &schema, &error), error);
  Owned<ardev_schema> owned_schema(schema);
  ardev_array* array = nullptr;
  must(ardev_array_import(c_array, schema, &array, &error), error);
  Owned<ardev_array> owned_array(array);

  // Copies what is on a device, and shares what is on the host.
  ardev_array* host = nullptr;
  must(ardev_array_copy(array, nullptr, nullptr, &host, &error), error);
  Owned<ardev_array> owned_host(host);
  // The data may be anything: look before you read.
  must(ardev_array_validate(host, nullptr, &error), error);

  ardev_array_info info = {};
  info.struct_size = sizeof(info);
  must(ardev_array_inspect(host, &info, &error), error);
  ardev_view* view = nullptr;
  must(ardev_view_open(host, nullptr, &view, &error), error);
  Owned<ardev_view> owned_view(view);
  ardev_place place;
  must(ardev_view_buffer(view, 1, &place, &error), error);
  const auto* values = static_cast<const int32_t*>(place.base) + info.offset;
  int64_t total = 0;
  for (int64_t row = 0; row < info.length; row++) total += values[row];
  return total;
}

int main() {
  try {
    ArrowSchema c_schema;
    ArrowDeviceArray c_array;
    produce(&c_schema, &c_array);
    std::printf("the sum is %d\n", static_cast<int>(sum(&c_schema, &c_array)));

    // A mistake of the producer is an error, and what it passed is released.
    produce(&c_schema, &c_array);
    c_array.array.length = -1;
    try {
      sum(&c_schema, &c_array);
      return 1;
    } catch (const std::runtime_error& refused) {
      std::printf("refused: %s\n", refused.what());
    }
    return c_array.array.release == nullptr ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
