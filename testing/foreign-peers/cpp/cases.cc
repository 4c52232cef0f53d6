#include "cases.h"

#include <arrow/api.h>
#include <arrow/extension/bool8.h>
#include <arrow/extension/json.h>
#include <arrow/extension/uuid.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>

#include <cstring>

namespace cases {
namespace {

using arrow::ArrayData;
using arrow::Buffer;
using arrow::DataType;
using arrow::Result;
using arrow::Status;
using arrow::Type;
using DataPtr = std::shared_ptr<ArrayData>;
using TypePtr = std::shared_ptr<DataType>;
using BufferPtr = std::shared_ptr<Buffer>;

// An extension of any storage.
class TestExtension : public arrow::ExtensionType {
 public:
  explicit TestExtension(TypePtr storage) : ExtensionType(std::move(storage)) {}
  std::string extension_name() const override { return "arrow_device.test"; }
  bool ExtensionEquals(const ExtensionType& other) const override {
    return other.extension_name() == extension_name() && other.storage_type()->Equals(storage_type());
  }
  std::shared_ptr<arrow::Array> MakeArray(DataPtr data) const override {
    return std::make_shared<arrow::ExtensionArray>(data);
  }
  Result<TypePtr> Deserialize(TypePtr storage, const std::string&) const override {
    return std::make_shared<TestExtension>(std::move(storage));
  }
  std::string Serialize() const override { return std::string("a\0b", 3); }
};

bool IsNull(int64_t index) { return index % 3 == 1; }

Result<BufferPtr> Bits(int64_t count, bool (*is_set)(int64_t)) {
  ARROW_ASSIGN_OR_RAISE(auto bits, arrow::AllocateEmptyBitmap(count));
  for (int64_t index = 0; index < count; ++index) {
    arrow::bit_util::SetBitTo(bits->mutable_data(), index, is_set(index));
  }
  return bits;
}

template <typename T>
Result<BufferPtr> Numbers(int64_t count, T (*at)(int64_t)) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(count * static_cast<int64_t>(sizeof(T))));
  for (int64_t index = 0; index < count; ++index) {
    const T value = at(index);
    std::memcpy(buffer->mutable_data() + index * sizeof(T), &value, sizeof(T));
  }
  return BufferPtr(std::move(buffer));
}

// Numbers of so many bytes, from 64 bits; what is wider is filled with zeros.
Result<BufferPtr> Integers(int64_t width, int64_t count, const std::function<int64_t(int64_t)>& at) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(count * width));
  std::memset(buffer->mutable_data(), 0, static_cast<size_t>(count * width));
  for (int64_t index = 0; index < count; ++index) {
    const int64_t value = at(index);
    std::memcpy(buffer->mutable_data() + index * width, &value, static_cast<size_t>(std::min<int64_t>(width, 8)));
  }
  return BufferPtr(std::move(buffer));
}

Result<BufferPtr> FixedValues(const DataType& type, int64_t count) {
  const int64_t width = arrow::internal::checked_cast<const arrow::FixedWidthType&>(type).bit_width() / 8;
  switch (type.id()) {
    case Type::FLOAT:
      return Numbers<float>(count, [](int64_t index) { return static_cast<float>(index) * 0.5F; });
    case Type::DOUBLE:
      return Numbers<double>(count, [](int64_t index) { return static_cast<double>(index) * -0.5; });
    case Type::HALF_FLOAT:
      return Numbers<uint16_t>(count, [](int64_t index) { return static_cast<uint16_t>(0x3c00 + index); });
    case Type::DATE64:
      return Integers(width, count, [](int64_t index) { return index * 86400000; });
    default:
      return Integers(width, count, [](int64_t index) { return index * 3 + 1; });
  }
}

template <typename Builder>
Result<DataPtr> Views(int64_t count, bool nulls) {
  Builder builder;
  for (int64_t index = 0; index < count; ++index) {
    if (nulls && IsNull(index)) {
      ARROW_RETURN_NOT_OK(builder.AppendNull());
    } else if (index % 2 == 0) {
      ARROW_RETURN_NOT_OK(builder.Append("abc"));
    } else {
      ARROW_RETURN_NOT_OK(builder.Append("longer than a view can hold, number " + std::to_string(index)));
    }
  }
  ARROW_ASSIGN_OR_RAISE(auto array, builder.Finish());
  return array->data();
}

Result<DataPtr> Make(const TypePtr& type, int64_t count, bool nulls) {
  BufferPtr validity;
  int64_t null_count = 0;
  if (nulls) {
    ARROW_ASSIGN_OR_RAISE(validity, Bits(count, [](int64_t index) { return !IsNull(index); }));
    for (int64_t index = 0; index < count; ++index) null_count += IsNull(index) ? 1 : 0;
  }
  const auto twice = [](int64_t index) { return index * 2; };
  auto plain = [&](std::vector<BufferPtr> buffers, std::vector<DataPtr> children = {}) {
    return ArrayData::Make(type, count, std::move(buffers), std::move(children), null_count);
  };
  switch (type->id()) {
    case Type::NA:
      return ArrayData::Make(type, count, {nullptr}, count);
    case Type::BOOL: {
      ARROW_ASSIGN_OR_RAISE(auto bits, Bits(count, [](int64_t index) { return index % 2 == 0; }));
      return plain({validity, bits});
    }
    case Type::STRING:
    case Type::BINARY:
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY: {
      const bool large = type->id() == Type::LARGE_STRING || type->id() == Type::LARGE_BINARY;
      ARROW_ASSIGN_OR_RAISE(auto offsets, Integers(large ? 8 : 4, count + 1, twice));
      ARROW_ASSIGN_OR_RAISE(auto text, Integers(1, count * 2, [](int64_t index) { return 'a' + index % 26; }));
      return plain({validity, offsets, text});
    }
    case Type::STRING_VIEW:
      return Views<arrow::StringViewBuilder>(count, nulls);
    case Type::BINARY_VIEW:
      return Views<arrow::BinaryViewBuilder>(count, nulls);
    case Type::LIST:
    case Type::LARGE_LIST: {
      const int64_t width = type->id() == Type::LIST ? 4 : 8;
      ARROW_ASSIGN_OR_RAISE(auto offsets, Integers(width, count + 1, twice));
      ARROW_ASSIGN_OR_RAISE(auto items, Make(type->field(0)->type(), count * 2, nulls));
      return plain({validity, offsets}, {items});
    }
    case Type::MAP: {
      ARROW_ASSIGN_OR_RAISE(auto offsets, Integers(4, count + 1, twice));
      const auto& entries = type->field(0)->type();
      ARROW_ASSIGN_OR_RAISE(auto keys, Make(entries->field(0)->type(), count * 2, false));
      ARROW_ASSIGN_OR_RAISE(auto values, Make(entries->field(1)->type(), count * 2, nulls));
      auto pairs = ArrayData::Make(entries, count * 2, {nullptr}, {keys, values}, 0);
      return plain({validity, offsets}, {pairs});
    }
    case Type::LIST_VIEW:
    case Type::LARGE_LIST_VIEW: {
      const int64_t width = type->id() == Type::LIST_VIEW ? 4 : 8;
      ARROW_ASSIGN_OR_RAISE(auto starts, Integers(width, count, [count](int64_t i) { return count - 1 - i; }));
      ARROW_ASSIGN_OR_RAISE(auto sizes, Integers(width, count, [](int64_t) { return 1; }));
      ARROW_ASSIGN_OR_RAISE(auto items, Make(type->field(0)->type(), count, nulls));
      return plain({validity, starts, sizes}, {items});
    }
    case Type::FIXED_SIZE_LIST: {
      const auto& list = arrow::internal::checked_cast<const arrow::FixedSizeListType&>(*type);
      ARROW_ASSIGN_OR_RAISE(auto items, Make(list.value_type(), count * list.list_size(), nulls));
      return plain({validity}, {items});
    }
    case Type::STRUCT: {
      std::vector<DataPtr> children;
      for (const auto& field : type->fields()) {
        ARROW_ASSIGN_OR_RAISE(auto child, Make(field->type(), count, nulls && field->nullable()));
        children.push_back(child);
      }
      return plain({validity}, children);
    }
    case Type::SPARSE_UNION:
    case Type::DENSE_UNION: {
      const bool dense = type->id() == Type::DENSE_UNION;
      const int64_t fields = type->num_fields();
      const auto& codes = arrow::internal::checked_cast<const arrow::UnionType&>(*type).type_codes();
      std::vector<DataPtr> children;
      for (const auto& field : type->fields()) {
        const int64_t each = dense ? (count + fields - 1) / fields : count;
        ARROW_ASSIGN_OR_RAISE(auto child, Make(field->type(), each, nulls));
        children.push_back(child);
      }
      const auto which = [&](int64_t index) { return codes[static_cast<size_t>(index % fields)]; };
      ARROW_ASSIGN_OR_RAISE(auto ids, Integers(1, count, which));
      std::vector<BufferPtr> buffers{nullptr, ids};
      if (dense) {
        ARROW_ASSIGN_OR_RAISE(auto places, Integers(4, count, [&](int64_t index) { return index / fields; }));
        buffers.push_back(places);
      }
      return ArrayData::Make(type, count, buffers, children, 0);
    }
    case Type::DICTIONARY: {
      const auto& dictionary = arrow::internal::checked_cast<const arrow::DictionaryType&>(*type);
      const int64_t width = dictionary.index_type()->byte_width();
      ARROW_ASSIGN_OR_RAISE(auto keys, Integers(width, count, [](int64_t index) { return index % 3; }));
      ARROW_ASSIGN_OR_RAISE(auto values, Make(dictionary.value_type(), 4, nulls));
      auto data = plain({validity, keys});
      data->dictionary = values;
      return data;
    }
    case Type::RUN_END_ENCODED: {
      const auto& runs = arrow::internal::checked_cast<const arrow::RunEndEncodedType&>(*type);
      const int64_t number = (count + 1) / 2;
      const int64_t width = runs.run_end_type()->byte_width();
      ARROW_ASSIGN_OR_RAISE(auto ends, Integers(width, number, [](int64_t index) { return (index + 1) * 2; }));
      auto run_ends = ArrayData::Make(runs.run_end_type(), number, {nullptr, ends}, 0);
      ARROW_ASSIGN_OR_RAISE(auto values, Make(runs.value_type(), number, nulls));
      return ArrayData::Make(type, count, {nullptr}, {run_ends, values}, 0);
    }
    case Type::EXTENSION: {
      const auto& extension = arrow::internal::checked_cast<const arrow::ExtensionType&>(*type);
      ARROW_ASSIGN_OR_RAISE(auto storage, Make(extension.storage_type(), count, nulls));
      auto data = storage->Copy();
      data->type = type;
      return data;
    }
    default: {
      ARROW_ASSIGN_OR_RAISE(auto values, FixedValues(*type, count));
      return plain({validity, values});
    }
  }
}

std::vector<TypePtr> Leaves() {
  using arrow::TimeUnit;
  return {arrow::null(),
          arrow::boolean(),
          arrow::int8(),
          arrow::uint8(),
          arrow::int16(),
          arrow::uint16(),
          arrow::int32(),
          arrow::uint32(),
          arrow::int64(),
          arrow::uint64(),
          arrow::float16(),
          arrow::float32(),
          arrow::float64(),
          arrow::decimal32(7, 2),
          arrow::decimal64(15, 3),
          arrow::decimal128(30, 2),
          arrow::decimal256(60, -4),
          arrow::date32(),
          arrow::date64(),
          arrow::time32(TimeUnit::SECOND),
          arrow::time32(TimeUnit::MILLI),
          arrow::time64(TimeUnit::MICRO),
          arrow::time64(TimeUnit::NANO),
          arrow::timestamp(TimeUnit::SECOND),
          arrow::timestamp(TimeUnit::MILLI, "+05:30"),
          arrow::timestamp(TimeUnit::MICRO, "UTC"),
          arrow::timestamp(TimeUnit::NANO, "Europe/Paris"),
          arrow::duration(TimeUnit::SECOND),
          arrow::duration(TimeUnit::MILLI),
          arrow::duration(TimeUnit::MICRO),
          arrow::duration(TimeUnit::NANO),
          arrow::month_interval(),
          arrow::day_time_interval(),
          arrow::month_day_nano_interval(),
          arrow::fixed_size_binary(3),
          arrow::fixed_size_binary(0),
          arrow::binary(),
          arrow::utf8(),
          arrow::large_binary(),
          arrow::large_utf8(),
          arrow::binary_view(),
          arrow::utf8_view()};
}

std::vector<TypePtr> Holders(const TypePtr& of) {
  const arrow::FieldVector pair{arrow::field("f0", of), arrow::field("f1", arrow::int16())};
  return {arrow::list(of),
          arrow::large_list(of),
          arrow::list_view(of),
          arrow::large_list_view(of),
          arrow::fixed_size_list(of, 2),
          arrow::struct_(pair),
          arrow::map(arrow::utf8(), of),
          arrow::sparse_union(pair, {5, 6}),
          arrow::dense_union(pair, {5, 6}),
          arrow::dictionary(arrow::int8(), of),
          arrow::run_end_encoded(arrow::int32(), of),
          std::make_shared<TestExtension>(of)};
}

std::vector<TypePtr> Types() {
  const auto leaves = Leaves();
  std::vector<TypePtr> all = leaves;
  const auto add_holders = [&](const TypePtr& of) {
    for (const auto& holder : Holders(of)) all.push_back(holder);
  };
  for (const auto& leaf : leaves) add_holders(leaf);
  for (const auto& holder : Holders(arrow::int64())) add_holders(holder);
  for (const auto& index : {arrow::uint8(), arrow::int16(), arrow::uint16(), arrow::int32(), arrow::uint32(),
                            arrow::int64(), arrow::uint64()}) {
    all.push_back(arrow::dictionary(index, arrow::utf8(), /*ordered=*/true));
  }
  all.push_back(arrow::run_end_encoded(arrow::int16(), arrow::utf8()));
  all.push_back(arrow::run_end_encoded(arrow::int64(), arrow::utf8()));
  all.push_back(arrow::struct_({}));
  all.push_back(arrow::fixed_size_list(arrow::utf8(), 0));
  all.push_back(arrow::map(arrow::utf8(), arrow::int32(), /*keys_sorted=*/true));
  all.push_back(arrow::list(arrow::field("inner", arrow::utf8(), false)));
  all.push_back(arrow::extension::uuid());
  all.push_back(arrow::extension::bool8());
  all.push_back(arrow::extension::json(arrow::utf8()));
  return all;
}

void AddWindows(const std::string& name, const TypePtr& type, std::vector<Case>* out) {
  for (const bool nulls : {false, true}) {
    const std::string which = name + (nulls ? " with nulls" : "");
    out->push_back({which + ", whole", type, 5, nulls, 0, 5});
    out->push_back({which + ", sliced", type, 9, nulls, 3, 4});
    out->push_back({which + ", empty", type, 0, nulls, 0, 0});
    out->push_back({which + ", empty slice", type, 5, nulls, 2, 0});
  }
}

}  // namespace

const std::vector<Case>& Arrays() {
  static const std::vector<Case> all = [] {
    std::vector<Case> cases;
    for (const auto& type : Types()) AddWindows(type->ToString(), type, &cases);
    return cases;
  }();
  return all;
}

const std::vector<Case>& Batches() {
  static const std::vector<Case> all = [] {
    std::vector<Case> cases;
    const auto as_struct = [](const std::vector<TypePtr>& types) {
      arrow::FieldVector fields;
      for (const auto& type : types) {
        auto metadata = arrow::key_value_metadata({"key"}, {"value " + std::to_string(fields.size())});
        fields.push_back(arrow::field("f" + std::to_string(fields.size()), type, true, metadata));
      }
      return arrow::struct_(fields);
    };
    AddWindows("batch of leaves", as_struct(Leaves()), &cases);
    AddWindows("batch of holders", as_struct(Holders(arrow::int64())), &cases);
    AddWindows("batch without columns", as_struct({}), &cases);
    return cases;
  }();
  return all;
}

Result<std::shared_ptr<arrow::Array>> MakeArray(const Case& which) {
  ARROW_ASSIGN_OR_RAISE(auto data, Make(which.type, which.length, which.nulls));
  auto array = arrow::MakeArray(data);
  return which.count == which.length ? array : array->Slice(which.from, which.count);
}

Result<std::shared_ptr<arrow::RecordBatch>> MakeBatch(const Case& which) {
  std::vector<DataPtr> columns;
  for (const auto& field : which.type->fields()) {
    ARROW_ASSIGN_OR_RAISE(auto column, Make(field->type(), which.length, which.nulls));
    columns.push_back(column);
  }
  auto schema = arrow::schema(which.type->fields(), arrow::key_value_metadata({"of"}, {"the batch"}));
  auto batch = arrow::RecordBatch::Make(schema, which.length, columns);
  return which.count == which.length ? batch : batch->Slice(which.from, which.count);
}

Status RegisterExtension() {
  // Once for the process, whatever happens first.
  static const Status status = arrow::RegisterExtensionType(std::make_shared<TestExtension>(arrow::int64()));
  return status;
}

}  // namespace cases
