/* A C stream of nanoarrow's: each batch is built of the same buffers without a copy, and read
 * through a view that is used again, which is the least that nanoarrow does for a batch. */
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>

struct BenchStream {
  struct ArrowSchema schema;
  struct ArrowArray source;
  /* Of the source, from which batches are built. */
  struct ArrowArrayView built_from;
  struct ArrowArrayStream stream;
  /* Of the consumer. */
  struct ArrowArrayView view;
};

/* The source keeps the buffers. */
static void keep(struct ArrowBufferAllocator* allocator, uint8_t* bytes, int64_t size) {
  (void)allocator;
  (void)bytes;
  (void)size;
}

static int share(struct ArrowArray* to, const struct ArrowArrayView* from) {
  to->length = from->length;
  to->offset = from->offset;
  to->null_count = from->null_count;
  for (int64_t index = 0; index < to->n_buffers; ++index) {
    struct ArrowBuffer buffer;
    ArrowBufferInit(&buffer);
    buffer.data = (uint8_t*)from->buffer_views[index].data.as_uint8;
    buffer.size_bytes = from->buffer_views[index].size_bytes;
    buffer.allocator = ArrowBufferDeallocator(&keep, NULL);
    NANOARROW_RETURN_NOT_OK(ArrowArraySetBuffer(to, index, &buffer));
  }
  for (int64_t index = 0; index < to->n_children; ++index) {
    NANOARROW_RETURN_NOT_OK(share(to->children[index], from->children[index]));
  }
  return NANOARROW_OK;
}

static int get_schema(struct ArrowArrayStream* stream, struct ArrowSchema* out) {
  return ArrowSchemaDeepCopy(&((struct BenchStream*)stream->private_data)->schema, out);
}

static int get_next(struct ArrowArrayStream* stream, struct ArrowArray* out) {
  struct BenchStream* bench = stream->private_data;
  NANOARROW_RETURN_NOT_OK(ArrowArrayInitFromArrayView(out, &bench->built_from, NULL));
  int code = share(out, &bench->built_from);
  if (code == NANOARROW_OK) code = ArrowArrayFinishBuilding(out, NANOARROW_VALIDATION_LEVEL_NONE, NULL);
  if (code != NANOARROW_OK) ArrowArrayRelease(out);
  return code;
}

static const char* get_last_error(struct ArrowArrayStream* stream) {
  (void)stream;
  return NULL;
}

static void release(struct ArrowArrayStream* stream) { stream->release = NULL; }

struct BenchStream* bench_nanoarrow_open(struct ArrowSchema* schema, struct ArrowArray* source) {
  struct BenchStream* bench = calloc(1, sizeof(*bench));
  if (bench == NULL) return NULL;
  ArrowSchemaMove(schema, &bench->schema);
  ArrowArrayMove(source, &bench->source);
  if (ArrowArrayViewInitFromSchema(&bench->built_from, &bench->schema, NULL) != NANOARROW_OK) return NULL;
  if (ArrowArrayViewSetArray(&bench->built_from, &bench->source, NULL) != NANOARROW_OK) return NULL;
  bench->stream.get_schema = &get_schema;
  bench->stream.get_next = &get_next;
  bench->stream.get_last_error = &get_last_error;
  bench->stream.release = &release;
  bench->stream.private_data = bench;
  struct ArrowSchema read;
  if (ArrowArrayStreamGetSchema(&bench->stream, &read, NULL) != NANOARROW_OK) return NULL;
  const int code = ArrowArrayViewInitFromSchema(&bench->view, &read, NULL);
  ArrowSchemaRelease(&read);
  return code == NANOARROW_OK ? bench : NULL;
}

/* The rows of the next batch, or -1. */
int64_t bench_nanoarrow_next(struct BenchStream* bench) {
  struct ArrowArray array;
  if (ArrowArrayStreamGetNext(&bench->stream, &array, NULL) != NANOARROW_OK || array.release == NULL) return -1;
  const int code = ArrowArrayViewSetArray(&bench->view, &array, NULL);
  const int64_t rows = code == NANOARROW_OK ? bench->view.length : -1;
  ArrowArrayRelease(&array);
  return rows;
}

/* The value of the last row of the last column of the next batch, which nothing may be built for.
 */
int64_t bench_nanoarrow_last(struct BenchStream* bench) {
  struct ArrowArray array;
  if (ArrowArrayStreamGetNext(&bench->stream, &array, NULL) != NANOARROW_OK || array.release == NULL) return -1;
  int64_t value = -1;
  if (ArrowArrayViewSetArray(&bench->view, &array, NULL) == NANOARROW_OK) {
    value = ArrowArrayViewGetIntUnsafe(bench->view.children[bench->view.n_children - 1], bench->view.length - 1);
  }
  ArrowArrayRelease(&array);
  return value;
}
