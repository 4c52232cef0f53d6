#include <stdlib.h>

#include <nanoarrow/nanoarrow.h>
#include <nanoarrow/nanoarrow_device.h>

#include "copies.h"

/* A view of the buffers, and what keeps them. */
struct Held {
  struct ArrowDeviceArray array;
  struct ArrowDeviceArrayView view;
};

void* copies_hold(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  struct Held* held = malloc(sizeof(*held));
  if (held == NULL) return NULL;
  ArrowDeviceArrayViewInit(&held->view);
  int code = ArrowArrayViewInitFromSchema(&held->view.array_view, schema, NULL);
  schema->release(schema);
  ArrowDeviceArrayMove(array, &held->array);
  if (code == NANOARROW_OK) code = ArrowDeviceArrayViewSetArray(&held->view, &held->array, NULL);
  return code == NANOARROW_OK ? held : NULL;
}

int copies_copy(void* held) {
  struct ArrowDeviceArray copied;
  NANOARROW_RETURN_NOT_OK(ArrowDeviceArrayViewCopy(&((struct Held*)held)->view, ArrowDeviceCpu(), &copied));
  copied.array.release(&copied.array);
  return 0;
}

int copies_sum(void* held, int64_t* sum) {
  struct ArrowDeviceArray copied;
  NANOARROW_RETURN_NOT_OK(ArrowDeviceArrayViewCopy(&((struct Held*)held)->view, ArrowDeviceCpu(), &copied));
  *sum = 0;
  for (int64_t i = 0; i < copied.array.n_children; i++) {
    const struct ArrowArray* column = copied.array.children[i];
    const int64_t* numbers = column->buffers[1];
    for (int64_t row = 0; row < column->length; row++) *sum += numbers[column->offset + row];
  }
  copied.array.release(&copied.array);
  return 0;
}
