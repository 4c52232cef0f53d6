// Every class of arrow_device.hpp, in either form.
#include "checks.hpp"

#include <sys/socket.h>

using namespace arrow_device;

static void devices_and_queues() {
  const Device device = MUST(Device::open(ARROW_DEVICE_CPU));
  CHECK(MUST(device.info()).device_type == ARROW_DEVICE_CPU);
  bool has_host = false;
  for (const DeviceInfo& info : MUST(Device::list())) has_host |= info.device_type == ARROW_DEVICE_CPU;
  CHECK(has_host);
  CHECK(MUST(MUST(Device::find(ARROW_DEVICE_CPU, -1)).info()).device_type == ARROW_DEVICE_CPU);
  MUST(device.check_mistakes());
  MUST(device.count_exchanges());
  CHECK(MUST(device.held()).staging < 1u << 30);

  const Queue queue = MUST(device.open_queue());
  const Event event = MUST(queue.record());
  MUST(queue.wait(event));
  MUST(event.wait(std::chrono::seconds(10)));
  CHECK(MUST(event.is_complete()));
  MUST(queue.synchronize());
  CHECK(MUST(queue.is_idle()));
  int submitted = 0;
  MUST(queue.submit([&] { return ++submitted, 0; }));
  CHECK(submitted == 1);
  CHECK(error_of([&] { return queue.submit([] { return EBUSY; }); }).code() == EBUSY);

  CHECK(error_of([] { return Device::open(4711); }).kind() == Kind::unsupported);
  CHECK(error_of([] { return Device::find(ARROW_DEVICE_CUDA, 99); }).kind() == Kind::device_missing);
  CHECK(error_of([] { return Device::open(ARROW_DEVICE_CPU, 0, Memory::svm); }).code() == ENOSYS);
  CHECK(version() >> 16 == ARDEV_VERSION_MAJOR);

  // What was adopted ends once, also where it is refused.
  Counted::calls = 0;
  CHECK(error_of([&] { return Queue::adopt(Device(), &submitted, Counted()); }).code() == EINVAL);
  CHECK(error_of([&] { return Event::adopt(Device(), &submitted, Counted()); }).code() == EINVAL);
  CHECK(Counted::calls == 2);
  MUST(MUST(Queue::adopt(device, nullptr, Counted())).synchronize());
  CHECK(Counted::calls == 3);
}

static void moves() {
  Array array = MUST(Array::of(Numbers{1, 2, 3}));
  Array other = std::move(array);
  CHECK(!array && other);
  // A moved-from object is refused and not dangerous.
  CHECK(error_of([&] { return array.info(); }).kind() == Kind::invalid_argument);
  Array& same = other;
  other = std::move(same);
  CHECK(numbers_of(other) == (Numbers{1, 2, 3}));
  other = MUST(Array::of(Numbers{4}));
  CHECK(numbers_of(other) == Numbers{4});
  array = std::move(other);
  ardev_array* pointer = array.release();
  CHECK(!array);
  CHECK(numbers_of(Array(pointer)) == Numbers{4});
  array.reset();

  // An empty queue is no way to say "the host".
  Queue queue = MUST(MUST(Device::open(ARROW_DEVICE_CPU)).open_queue());
  const Queue moved = std::move(queue);
  CHECK(error_of([&] { return Array::of(Numbers{1}, queue); }).kind() == Kind::invalid_argument);
  CHECK(error_of([&] { return Buffer::allocate(1, queue); }).kind() == Kind::invalid_argument);
  const Array four = MUST(Array::of(Numbers{4}, moved));
  CHECK(error_of([&] { return four.copy_to(queue); }).kind() == Kind::invalid_argument);
  CHECK(error_of([&] { return four.exported(queue); }).kind() == Kind::invalid_argument);

  // C structs that were exported are released once, whoever has them at the end.
  Exported<ArrowDeviceArray> c_array = MUST(four.exported());
  Exported<ArrowDeviceArray> moved_array = std::move(c_array);
  CHECK(c_array->array.release == nullptr && moved_array->array.release != nullptr);
  Exported<ArrowDeviceArray>& same_array = moved_array;
  moved_array = std::move(same_array);
  CHECK(moved_array->array.release != nullptr);
  ArrowDeviceArray plain;
  moved_array.move_to(&plain);
  CHECK(moved_array->array.release == nullptr);
  plain.array.release(&plain.array);
}

static void schemas() {
  const Schema id = MUST(Schema::of<int64_t>("id"));
  const Schema name = MUST(Schema::make("u", "name"));
  const Schema row = MUST(Schema::make("+s", "", {&id, &name}, 0));
  CHECK(MUST(row.describe()) == "struct<id: int64, name: utf8> not null");
  CHECK(MUST(row.format()) == "+s");
  Exported<ArrowSchema> c_schema = MUST(row.exported());
  CHECK(c_schema->n_children == 2 && std::string(c_schema->children[1]->name) == "name");
  const Schema again = MUST(Schema::import_from(c_schema.get()));
  CHECK(c_schema->release == nullptr);
  CHECK(MUST(again.describe()) == MUST(row.describe()));
  CHECK(error_of([] { return Schema::make("what"); }).code() == EINVAL);
  CHECK(MUST(MUST(Schema::of<uint8_t>()).format()) == "C" && MUST(MUST(Schema::of<float>()).format()) == "f");
}

static void parts_of_schemas() {
  const Metadata pairs = {{"unit", "EUR"}, {"unit", std::string("\0a", 2)}, {"", ""}};
  const Schema price = MUST(MUST(Schema::make("d:10,2", "price", {}, 0)).with_metadata(pairs));
  CHECK(MUST(price.metadata()) == pairs && MUST(price.name()) == "price" && MUST(price.flags()) == 0);
  CHECK(MUST(price.format()) == "d:10,2" && MUST(price.children()) == 0 && !MUST(price.extension()));
  const Schema json = MUST(MUST(Schema::make("u", "order")).with_extension({"arrow.json", "{}"}));
  const std::optional<Extension> extension = MUST(json.extension());
  CHECK(extension && extension->name == "arrow.json" && extension->parameters == "{}");
  const Schema word = MUST(Schema::make("c", "word", {}, ARROW_FLAG_NULLABLE, &json));
  CHECK(MUST(MUST(word.dictionary()).extension())->name == "arrow.json" && MUST(word.format()) == "c");
  // Children keep what they have.
  const Schema row = MUST(Schema::make("+s", "", {&price, &word}));
  CHECK(MUST(row.children()) == 2 && MUST(MUST(row.child(0)).metadata()) == pairs && MUST(row.name()).empty());
  CHECK(error_of([&] { return row.child(2); }).code() == EINVAL);
  CHECK(error_of([&] { return row.dictionary(); }).code() == EINVAL);
  CHECK(MUST(MUST(price.with_metadata({})).metadata()).empty());
}

static void arrays_of_values() {
  const std::vector<uint8_t> there = {1, 0, 1};
  const Schema days = MUST(Schema::make("tdD", "day"));
  const Array dates = MUST(Array::from_values(days, std::vector<int32_t>{19000, 7, 19001}, there));
  CHECK(MUST(MUST(dates.schema()).name()) == "day" && MUST(dates.info()).null_count == 1);
  MUST(dates.validate());
  const Array flags = MUST(Array::from_values(MUST(Schema::make("b")), std::vector<uint8_t>{2, 0, 1}));
  {
    const HostView view = MUST(flags.view(host));
    CHECK(MUST(view.bytes(1)).size() == 1 && (MUST(view.bytes(1))[0] & 7) == 5);
  }
  for (const char* format : {"u", "U", "vu", "z"}) {
    const Schema type = MUST(Schema::make(format, "text"));
    const std::vector<std::optional<std::string>> texts = {"a", std::nullopt, "", "more than twelve letters"};
    const Array array = MUST(Array::from_texts(type, texts));
    CHECK(MUST(array.info()).length == 4 && MUST(array.info()).null_count == 1);
    CHECK(MUST(MUST(array.schema()).name()) == "text");
    MUST(array.validate());
  }
  CHECK(MUST(MUST(Array::from_texts(MUST(Schema::make("u")), std::vector<std::string_view>{"a", {}})).info()).null_count == 0);
  CHECK(error_of([&] { return Array::from_values(days, std::vector<int64_t>{1}); }).code() == EINVAL);
  CHECK(error_of([&] { return Array::from_values(days, std::vector<int32_t>{1}, there); }).code() == EINVAL);
  CHECK(error_of([&] { return Array::from_texts(days, std::vector<std::string>{"a"}); }).code() == EINVAL);
  const Queue queue = MUST(MUST(Device::open_any()).open_queue());
  MUST(MUST(Array::from_values(days, std::vector<int32_t>{1, 2, 3}, there, queue)).validate(queue));
}

static void buffers_and_arrays() {
  // From buffers: text with a null.
  const Buffer validity = MUST(Buffer::copy_of(std::vector<uint8_t>{0b101}));
  Buffer offsets = MUST(Buffer::allocate(16));
  const Span<int32_t> places = MUST(offsets.writable<int32_t>());
  CHECK(places.size() >= 4);
  const int32_t ends[] = {0, 2, 2, 5};
  for (size_t i = 0; i < places.size(); i++) places[i] = ends[i < 4 ? i : 3];
  const Buffer letters = MUST(Buffer::copy_of(std::string("abcde")));
  Parts parts;
  parts.length = 3;
  parts.buffers = {&validity, &offsets, &letters};
  const Array text = MUST(Array::build(MUST(Schema::make("u", "text")), parts));
  MUST(text.validate());
  {
    HostView view = MUST(text.view(host));
    CHECK(view.length() == 3 && view.is_valid(0) && !view.is_valid(1) && view.is_valid(2));
    CHECK(MUST(view.text(0)) == "ab" && MUST(view.text(2)) == "cde");
    CHECK(error_of([&] { return view.text(3); }).kind() == Kind::invalid_argument);
    HostView moved = std::move(view);
    CHECK(MUST(moved.text(2)) == "cde" && view.length() == 0 && view.is_valid(0));
    view = std::move(moved);
    CHECK(view.length() == 3 && moved.length() == 0);
    CHECK(error_of([&] { return view.values<int32_t>(); }).kind() == Kind::schema_mismatch);
    CHECK(MUST(view.bytes(2)).size() == 5);
  }
  // Offsets that lead out of the buffer, which nobody looked at when the array was built.
  for (const auto& wrong : {std::vector<int32_t>{0, 64, 5}, std::vector<int32_t>{-64, 5, 5}}) {
    const Buffer places_of_wrong = MUST(Buffer::copy_of(wrong));
    parts.length = 2;
    parts.buffers = {nullptr, &places_of_wrong, &letters};
    const Array built = MUST(Array::build(MUST(Schema::make("u", "wrong")), parts));
    const HostView view = MUST(built.view(host));
    CHECK(error_of([&] { return view.text(0); }).kind() == Kind::invalid_data);
    CHECK(wrong[1] == 5 || error_of([&] { return view.text(1); }).kind() == Kind::invalid_data);
  }
  const Array tail = MUST(text.slice(1, 2));
  {
    const HostView view = MUST(tail.view(host));
    CHECK(view.length() == 2 && !view.is_valid(0) && MUST(view.text(1)) == "cde");
  }
  CHECK(error_of([&] { return text.slice(2, 2); }).code() == EINVAL);
  CHECK(MUST(text.buffer_sizes()).size() == 3);

  // From memory of the program's own, which ends with its last use.
  Counted::calls = 0;
  static const int64_t constants[] = {7, 8};
  Buffer wrapped = MUST(Buffer::wrap(ARROW_DEVICE_CPU, -1, constants, sizeof(constants), Counted()));
  parts.length = 2;
  parts.null_count = 0;
  parts.buffers = {nullptr, &wrapped};
  Array numbers = MUST(Array::build(MUST(Schema::of<int64_t>("number")), parts));
  wrapped.reset();
  CHECK(numbers_of(numbers) == (Numbers{7, 8}) && Counted::calls == 0);
  numbers.reset();
  MUST(wait_until_released(std::chrono::seconds(10)));
  CHECK(Counted::calls == 1);
  // Refused, and at its end all the same.
  CHECK(error_of([] { return Buffer::wrap(ARROW_DEVICE_CPU, -1, nullptr, 8, Counted()); }).code() == EINVAL);
  CHECK(Counted::calls == 2);

  const Buffer vector = MUST(Buffer::wrap(Numbers{1, 2, 3}));
  parts.length = 3;
  parts.buffers = {nullptr, &vector};
  const Array three = MUST(Array::build(MUST(Schema::of<int64_t>("three")), parts));
  CHECK(numbers_of(three) == (Numbers{1, 2, 3}));
  (void)MUST(Buffer::wrap(Numbers()));
  CHECK(numbers_of(MUST(three.slice(1, 1))) == Numbers{2});
  CHECK(numbers_of(MUST(Array::of(Numbers()))).empty());

  // A record batch.
  const Array batch = MUST(Array::batch({&text, &three}));
  CHECK(MUST(batch.info()).n_children == 2);
  CHECK(MUST(MUST(batch.schema()).describe()) == "struct<text: utf8, three: int64> not null");
  CHECK(numbers_of(MUST(MUST(batch.slice(2, 1)).column(1))) == Numbers{3});
  CHECK(numbers_of(MUST(batch.child(1))).size() == 3);
  CHECK(MUST(batch.describe()).find("three") != std::string::npos);
  CHECK(error_of([&] { return batch.column(2); }).code() == EINVAL);
  CHECK(error_of([&] { return batch.dictionary(); }).code() == EINVAL);

  // There and back through C.
  Exported<ArrowDeviceArray> c_array = MUST(batch.exported());
  const Schema schema = MUST(batch.schema());
  MUST(Array::check(*c_array, schema));
  CHECK(numbers_of(MUST(MUST(Array::import_from(c_array.get(), schema)).column(1))).size() == 3);
  CHECK(c_array->array.release == nullptr);
  CHECK(error_of([&] { return Array::import_from(c_array.get(), schema); }).kind() == Kind::released);
  Exported<ArrowArray> c_host = MUST(batch.exported_host());
  c_host.get()->length = -1;
  CHECK(error_of([&] { return Array::import_from(c_host.get(), schema); }).kind() == Kind::malformed);
  CHECK(c_host->release == nullptr);
  (void)MUST(batch.exported_settled());
}

static void copies_and_views() {
  const Queue queue = MUST(MUST(Device::open_any()).open_queue());
  const Array array = MUST(Array::of(Numbers{1, 2, 3}));
  CopyOptions options;
  options.flags = ARDEV_COPY_ALWAYS;
  options.alignment = 256;
  const Array there = MUST(array.copy_to(queue, options));
  {
    const View view = MUST(there.view(queue));
    CHECK(MUST(view.buffer(1)).size >= 24);
    CHECK(error_of([&] { return view.buffer(9); }).code() == EINVAL);
  }
  MUST(there.wait());
  CHECK(MUST(there.is_ready()));
  CHECK(numbers_of(MUST(there.copy_to(host))) == (Numbers{1, 2, 3}));
  MUST(array.validate(queue));
}

// What the next function of a stream gives: Numbers from one on, to four.
struct FromOne {
  int64_t next = 1;
  Outcome<std::optional<Array>> operator()() {
    if (next == 4) return std::optional<Array>();
    return std::optional<Array>(MUST(Array::of(Numbers{next++})));
  }
};

static Stream from_one() { return MUST(Stream::from(MUST(Schema::of<int64_t>()), ARROW_DEVICE_CPU, FromOne())); }

static Numbers read(const Stream& stream) {
  Numbers found;
  for (auto& array : stream) found.push_back(numbers_of(MUST(std::move(array))).at(0));
  return found;
}

static void streams() {
  const Numbers expected = {1, 2, 3};
  const Stream stream = from_one();
  CHECK(MUST(stream.device_type()) == ARROW_DEVICE_CPU && MUST(MUST(stream.schema()).format()) == "l");
  const std::optional<Array> first = MUST(stream.next());
  CHECK(first && numbers_of(*first) == Numbers{1});
  CHECK(read(stream) == (Numbers{2, 3}));
  CHECK(!MUST(stream.next()));

  // Both ways through C.
  CHECK(read(MUST(Stream::import_from(MUST(from_one().exported()).get()))) == expected);
  CHECK(read(MUST(Stream::import_from(MUST(from_one().exported_settled()).get()))) == expected);
  CHECK(read(MUST(Stream::import_from(MUST(from_one().exported_host()).get()))) == expected);
  const Stream handed = from_one();
  ArrowDeviceArrayStream c_stream;
  MUST(handed.export_to(&c_stream));
  CHECK(error_of([&] { return handed.next(); }).code() == EINVAL);
  c_stream.release(&c_stream);

  // A source that fails.
  const Schema schema = MUST(Schema::of<int64_t>());
  const Stream failing = MUST(Stream::from(schema, ARROW_DEVICE_CPU, []() -> Result<std::optional<Array>> {
    return Error(Kind::out_of_memory, ENOMEM, "the well is dry");
  }));
  const Error error = error_of([&] { return failing.next(); });
  CHECK(error.code() == ENOMEM && std::string(error.what()).find("the well is dry") != std::string::npos);
  // The loop ends after an error.
  const Stream again = MUST(Stream::from(schema, ARROW_DEVICE_CPU, []() -> Result<std::optional<Array>> {
    return Error(Kind::peer, EPROTO, "no");
  }));
#ifdef ARROW_DEVICE_NO_EXCEPTIONS
  int steps = 0;
  for (Result<Array>& array : again) CHECK(++steps == 1 && !array && array.error().code() == EPROTO);
  CHECK(steps == 1);
#else
  CHECK(attempt([&] { return read(again); }).error().code() == EPROTO);
  const Stream throwing = Stream::from(schema, ARROW_DEVICE_CPU, []() -> std::optional<Array> {
    throw std::runtime_error("thrown in a callback");
  });
  const Error thrown = error_of([&] { return throwing.next(); });
  CHECK(thrown.code() == EIO && std::string(thrown.what()).find("thrown in a callback") != std::string::npos);
  const Stream odd = Stream::from(schema, ARROW_DEVICE_CPU, []() -> std::optional<Array> { throw 7; });
  CHECK(error_of([&] { return odd.next(); }).code() == EIO);
#endif

  // What a source holds ends with the stream.
  auto held = std::make_shared<int>(0);
  {
    const Stream holding =
        MUST(Stream::from(schema, ARROW_DEVICE_CPU, [held]() -> std::optional<Array> { return std::nullopt; }));
    CHECK(held.use_count() == 2);
  }
  CHECK(held.use_count() == 1);
  CHECK(error_of([&] {
          return Stream::from(Schema(), ARROW_DEVICE_CPU, [held]() -> std::optional<Array> { return std::nullopt; });
        }).code() == EINVAL);
  CHECK(held.use_count() == 1);
}

static void pushed_streams() {
  AsyncStream pushed = MUST(Stream::from_async(2));
  std::thread producer([handler = std::move(pushed.handler)]() mutable { MUST(from_one().drive(std::move(handler))); });
  CHECK(read(pushed.stream) == (Numbers{1, 2, 3}));
  producer.join();
  // A handler that nobody was given ends by itself.
  (void)MUST(Stream::from_async(2));
}

static void tensors() {
  const Array array = MUST(Array::of(std::vector<float>{1, 2, 3, 4}));
  const Tensor tensor = MUST(Tensor::from_array(array));
  CHECK(MUST(tensor.shape()).size() == 1 && MUST(tensor.shape())[0] == 4 && MUST(tensor.info()).dtype.bits == 32);
  DlpackTensor c_tensor = MUST(tensor.exported());
  CHECK(c_tensor->dl_tensor.ndim == 1);
  const Tensor again = MUST(Tensor::import_from(c_tensor.release()));
  const Array back = MUST(Array::from_tensor(again));
  const HostView view = MUST(back.view(host));
  CHECK(MUST(view.values<float>())[3] == 4.0f);
  // Read-only memory has to be copied for the older form.
  CHECK(error_of([&] { return tensor.exported_legacy(); }).kind() == Kind::unsupported);
  LegacyDlpackTensor legacy = MUST(tensor.exported_legacy(host, Copying::always));
  CHECK(MUST(MUST(Tensor::import_from(legacy.release())).shape())[0] == 4);
  // One that is not handed on ends here.
  (void)MUST(tensor.exported(host, Copying::if_needed));
  Conversion conversion;
  conversion.copying = Copying::always;
  CHECK(MUST(MUST(Tensor::from_array(array, conversion)).info()).ndim == 1);
}

static void other_processes() {
  const Device device = MUST(Device::open(ARROW_DEVICE_CPU));
  const Queue queue = MUST(MUST(device.shareable()).open_queue());
  const Array array = MUST(MUST(Array::of(Numbers{1, 2, 3})).to_shareable(device));
  CHECK(error_of([&] { return MUST(Array::of(Numbers{1})).share(); }).kind() == Kind::unsupported);
  Shared shared = MUST(array.share());
  {
    const Array opened = MUST(Array::open(shared.ticket, {&device}));
    CHECK(numbers_of(opened) == (Numbers{1, 2, 3}));
    CHECK(MUST(shared.sender.held()) == 1);
    CHECK(error_of([&] { return shared.sender.wait(std::chrono::nanoseconds(0)); }).kind() == Kind::timed_out);
  }
  MUST(shared.sender.wait());
  CHECK(error_of([&] { return Array::open(-1, {&device}); }).code() == EINVAL);

  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Sender sender = MUST(Sender::on(ends[0]));
  const Receiver receiver = MUST(Receiver::on(ends[1], {&device}, ARDEV_RECEIVER_PASSING_ON));
  MUST(receiver.take_early(std::chrono::seconds(60)));
  CHECK(MUST(sender.fd()) == ends[0] && MUST(receiver.fd()) == ends[1]);
  CHECK(error_of([&] { return receiver.receive(std::chrono::nanoseconds(0)); }).kind() == Kind::timed_out);
  MUST(sender.send(MUST(MUST(Array::of(Numbers{4})).copy_to(queue, {0, ARDEV_COPY_ALWAYS, host}))));
  {
    // And on to a third party, which has the same memory.
    const Array received = *MUST(receiver.receive());
    const Shared passed_on = MUST(received.share());
    const Array third = MUST(Array::open(passed_on.ticket, {&device}));
    CHECK(numbers_of(received) == Numbers{4} && numbers_of(third) == Numbers{4});
  }

  // A stream, from a thread of its own.
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::thread server([&device, fd = ends[0]] {
    const Stream stream = MUST(Stream::from(MUST(Schema::of<int64_t>()), ARROW_DEVICE_CPU,
                                            [&device, next = FromOne()]() mutable -> Outcome<std::optional<Array>> {
                                              std::optional<Array> number = MUST(next());
                                              if (number) number = MUST(number->to_shareable(device));
                                              return number;
                                            }));
    MUST(MUST(Sender::on(fd)).serve(stream));
  });
  const Receiver streaming = MUST(Receiver::on(ends[1], {&device}));
  {
    const Stream stream = MUST(streaming.stream(2));
    CHECK(read(stream) == (Numbers{1, 2, 3}));
  }
  CHECK(error_of([&] { return streaming.stream(2); }).code() == EINVAL);
  CHECK(error_of([&] { return streaming.fd(); }).code() == EINVAL);
  server.join();
}

static void results_and_spans() {
  const Result<int> two = 2;
  const Result<int> none = Error(Kind::peer, EPROTO, "none");
  CHECK(two && *two == 2 && two.has_value() && !none && none.error().kind() == Kind::peer);
#ifndef ARROW_DEVICE_NO_EXCEPTIONS
  CHECK(attempt([&] { return none.value(); }).error().code() == EPROTO);
  attempt([] {}).value();
#endif
  const Numbers numbers = {1, 2};
  const Span<const int64_t> span = numbers;
  CHECK(span.size() == 2 && span[1] == 2 && span.begin() + 2 == span.end() && !span.empty());
}

int main() {
  devices_and_queues();
  moves();
  schemas();
  parts_of_schemas();
  arrays_of_values();
  buffers_and_arrays();
  copies_and_views();
  streams();
  pushed_streams();
  tensors();
  other_processes();
  results_and_spans();
  MUST(wait_until_released(std::chrono::seconds(10)));
  release_finished();
  set_allocation_timeout(std::chrono::seconds(10));
  CHECK(held_back() == 0 && abandoned() == 0);
  std::puts("all is well");
  return 0;
}
