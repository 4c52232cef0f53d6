// What an application of SYCL does that dpctl's C interface cannot: work that goes on until the
// host says so; and the table of functions that the header fills.

#include <atomic>
#include <memory>
#include <new>
#include <thread>

#include <arrow_device/sycl.hpp>

namespace {

using Gate = std::shared_ptr<std::atomic<bool>>;

}  // namespace

extern "C" void* shim_gate(void* queue) {
  Gate gate = std::make_shared<std::atomic<bool>>(false);
  sycl::queue& held = *static_cast<sycl::queue*>(queue);
  sycl::event task = held.submit([&](sycl::handler& handler) {
    handler.host_task([gate] {
      while (!*gate) std::this_thread::yield();
    });
  });
  // Also where the queue is out of order.
  held.ext_oneapi_submit_barrier({task});
  return new Gate(gate);
}

extern "C" void shim_open(void* gate) {
  Gate* open = static_cast<Gate*>(gate);
  **open = true;
  delete open;
}

extern "C" std::size_t shim_table(arrow_device::sycl::functions* table) {
  *table = arrow_device::sycl::make_functions();
  return sizeof(*table);
}
