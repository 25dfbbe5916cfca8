// Words of a command line in the form that execve(2) expects.
#pragma once

#include <string>
#include <vector>

namespace twin {

// Returns pointers to the words, followed by a null pointer. `words` must outlive the result.
inline std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace twin
