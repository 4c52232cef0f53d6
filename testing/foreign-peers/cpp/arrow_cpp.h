/* Arrow C++ behind a few C functions: what the tests in Rust call.
 *
 * A function that returns int returns 0, or 1 with a text in adf_cpp_last_error. What it takes over
 * it has released or moved when it returns 0; what Arrow C++ leaves unreleased when it fails stays
 * as it is, for the tests to see.
 *
 * A new entry point is a declaration here, a function in arrow_cpp.cc that is run by `guarded`, and
 * a line in the table of `src/arrow_cpp/`. */
#ifndef ARROW_DEVICE_FOREIGN_ARROW_CPP_H
#define ARROW_DEVICE_FOREIGN_ARROW_CPP_H

#include <arrow_device/abi.h>
#include <sim_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of sim_c.h, as the test program has them. */
struct AdfSimFunctions {
  __typeof__(&arrow_device_sim_device_id) device_id;
  __typeof__(&arrow_device_sim_allocate) allocate;
  __typeof__(&arrow_device_sim_free) free;
  __typeof__(&arrow_device_sim_open_queue) open_queue;
  __typeof__(&arrow_device_sim_close_queue) close_queue;
  __typeof__(&arrow_device_sim_copy_to_device) copy_to_device;
  __typeof__(&arrow_device_sim_copy_to_host) copy_to_host;
  __typeof__(&arrow_device_sim_record) record;
  __typeof__(&arrow_device_sim_destroy_event) destroy_event;
  __typeof__(&arrow_device_sim_synchronize) synchronize;
  __typeof__(&arrow_device_sim_last_error) last_error;
};

/* Where a case is exported, and how. */
enum AdfPlace {
  ADF_HOST = 0,
  /* On the software device; finished before the export. */
  ADF_SETTLED = 1,
  /* On the software device; the copy there is only submitted, and an event says when it is done. */
  ADF_PENDING = 2,
};

const char* adf_cpp_last_error(void);
/* The version of the library that is loaded. */
const char* adf_cpp_version(void);
/* The bytes of its default memory pool that are in use. */
int64_t adf_cpp_allocated(void);

/* The software device that is used from now on; it must stay open until another one is given, or
 * NULL. */
int adf_cpp_use_sim(const struct AdfSimFunctions* functions, struct ArrowDeviceSim* sim);

/* The cases: arrays first, then batches. */
size_t adf_cpp_array_count(void);
size_t adf_cpp_batch_count(void);
const char* adf_cpp_case_name(size_t number);

/* Makes the case and exports it with ExportDeviceArray or ExportDeviceRecordBatch. */
int adf_cpp_export(size_t number, int place, struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* The same with ExportArray or ExportRecordBatch: the interface without devices. */
int adf_cpp_export_plain(size_t number, struct ArrowSchema* schema, struct ArrowArray* array);
/* Imports, copies to the host if needed, validates all of it, and compares it with the case. */
int adf_cpp_compare(size_t number, struct ArrowSchema* schema, struct ArrowDeviceArray* array);
int adf_cpp_compare_plain(size_t number, struct ArrowSchema* schema, struct ArrowArray* array);

/* Imports, copies to the host if needed, validates all of it, and exports what it imported.
 * Extension types are known to Arrow C++ by their storage. */
int adf_cpp_relay(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                  struct ArrowDeviceArray* out_array);
/* Imports both, copies to the host if needed, and compares. */
int adf_cpp_equal(struct ArrowSchema* schema, struct ArrowDeviceArray* left, struct ArrowDeviceArray* right);

/* Imports as an array, or as a batch; looks at nothing and releases it. The text is what Validate
 * says, where something. */
int adf_cpp_import(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
int adf_cpp_import_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Whether Validate finds nothing wrong after the import. */
int adf_cpp_validate(struct ArrowSchema* schema, struct ArrowDeviceArray* array);

/* Whether it knows of something on the software device that it is there. */
int adf_cpp_knows_device(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Imports numbers; whether a slice of their buffer still has the event that the buffer has. */
int adf_cpp_slice_keeps_event(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Exports a slice of numbers on the software device, some of them null and counted. */
int adf_cpp_export_device_slice(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Exports keys on the software device with a dictionary on the host. */
int adf_cpp_export_mixed_dictionary(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Exports a view array that has no data buffer where one should be. */
int adf_cpp_export_broken_view(struct ArrowDeviceArray* array);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_FOREIGN_ARROW_CPP_H */
