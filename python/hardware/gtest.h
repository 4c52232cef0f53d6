/* As much of GoogleTest as nanoarrow's `cuda_test.cc` uses, so that it compiles where there is no
 * GoogleTest: `compiled.py` compiles it and reads what is printed, which is `begins`, `passed` or
 * `FAILED` and the name of each test. */
#ifndef ARROW_DEVICE_HARDWARE_GTEST_H
#define ARROW_DEVICE_HARDWARE_GTEST_H

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace testing {

struct Case {
  std::string name;
  std::function<void()> run;
};

inline std::vector<Case>& Cases() {
  static std::vector<Case> all;
  return all;
}

/* How many complaints there were. */
inline int& Complaints() {
  static int count = 0;
  return count;
}

inline void Complain(const char* file, int line, const std::string& words) {
  std::printf("%s:%d: %s\n", file, line, words.c_str());
  Complaints() += 1;
}

inline bool Holds(bool does, const char* words, const char* file, int line) {
  if (!does) Complain(file, line, std::string(words) + " does not hold");
  return does;
}

inline bool Add(std::string name, std::function<void()> run) {
  Cases().push_back({std::move(name), std::move(run)});
  return true;
}

class Test {
 public:
  virtual ~Test() = default;
  virtual void TestBody() = 0;
};

template <typename T>
class TestWithParam : public Test {
 public:
  using ParamType = T;
  const T& GetParam() const { return *param_; }
  void SetParam(const T* param) { param_ = param; }

 private:
  const T* param_ = nullptr;
};

/* The tests of a suite that has parameters. */
template <typename Suite>
struct Patterns {
  using Param = typename Suite::ParamType;
  using Pattern = std::pair<std::string, std::function<void(const Param*)>>;

  static std::vector<Pattern>& All() {
    static std::vector<Pattern> all;
    return all;
  }

  static bool Add(std::string name, std::function<void(const Param*)> run) {
    All().push_back({std::move(name), std::move(run)});
    return true;
  }

  static bool With(const std::string& prefix, std::vector<Param> values) {
    for (const Pattern& pattern : All()) {
      for (size_t number = 0; number < values.size(); number++) {
        Param value = values[number];
        auto run = pattern.second;
        ::testing::Add(prefix + "." + pattern.first + "/" + std::to_string(number), [run, value] { run(&value); });
      }
    }
    return true;
  }
};

template <typename T, typename... Rest>
std::vector<T> Values(T first, Rest... rest) {
  return {first, rest...};
}

/* What is added to a failure. */
struct Words {
  std::ostringstream text;

  template <typename T>
  Words& operator<<(const T& more) {
    text << more;
    return *this;
  }
};

struct Fails {
  const char* file;
  int line;

  void operator=(const Words& words) const { Complain(file, line, words.text.str()); }
};

inline int RunAll() {
  int failed = 0;
  for (const Case& one : Cases()) {
    std::printf("begins %s\n", one.name.c_str());
    std::fflush(stdout);
    int before = Complaints();
    one.run();
    bool passed = Complaints() == before;
    failed += passed ? 0 : 1;
    std::printf("%s %s\n", passed ? "passed" : "FAILED", one.name.c_str());
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace testing

#define TEST(suite, name)                                                                                        \
  static void suite##_##name##_Body();                                                                           \
  static const bool suite##_##name##_Added = ::testing::Add(#suite "." #name, [] { suite##_##name##_Body(); }); \
  static void suite##_##name##_Body()

#define TEST_P(suite, name)                                                              \
  class suite##_##name##_Test : public suite {                                           \
   public:                                                                               \
    void TestBody() override;                                                            \
  };                                                                                     \
  static const bool suite##_##name##_Added =                                             \
      ::testing::Patterns<suite>::Add(#name, [](const typename suite::ParamType* param) { \
        suite##_##name##_Test test;                                                      \
        test.SetParam(param);                                                            \
        test.TestBody();                                                                 \
      });                                                                                \
  void suite##_##name##_Test::TestBody()

#define INSTANTIATE_TEST_SUITE_P(prefix, suite, values) \
  static const bool prefix##_##suite##_Added = ::testing::Patterns<suite>::With(#prefix, values)

#define GTEST_HOLDS(condition) ::testing::Holds((condition), #condition, __FILE__, __LINE__)
#define GTEST_NEEDS(condition)  \
  if (GTEST_HOLDS(condition)) { \
  } else                        \
    return

#define EXPECT_EQ(one, other) GTEST_HOLDS((one) == (other))
#define ASSERT_EQ(one, other) GTEST_NEEDS((one) == (other))
#define ASSERT_NE(one, other) GTEST_NEEDS((one) != (other))
#define ASSERT_TRUE(condition) GTEST_NEEDS(condition)
#define GTEST_FAIL() return ::testing::Fails{__FILE__, __LINE__} = ::testing::Words{}

#ifdef ARROW_DEVICE_GTEST_MAIN
int main() { return ::testing::RunAll(); }
#endif

#endif
