#include "bindings/mxnet/run/programs.h"

#include <algorithm>

namespace tenon::plugin {

constexpr size_t kMostVariants = 64;

template <class Fits>
Program Programs::find(Fits&& fits) {
  const std::lock_guard guard(lock_);
  for (Variant& variant : variants_)
    if (fits(variant.pattern)) {
      variant.used = ++requests_;
      return variant.program;
    }
  return Program();
}

Program Programs::program(const Signature& signature) {
  const auto fits = [&](const Pattern& pattern) { return matches(pattern, signature); };
  if (Program known = find(fits)) return known;
  const std::lock_guard compiling(compiling_);
  if (Program known = find(fits)) return known;
  std::vector<Signature> alike{signature};
  for (const Signature& each : seen_)
    if (comparable(each, signature)) alike.push_back(each);
  if (seen_.size() < kMostVariants) seen_.push_back(signature);
  const Pattern pattern = generalize(alike);
  if (has_symbols(pattern)) {
    try {
      return add(pattern);
    } catch (const Error&) {  // an operator that needs a size as a number
    }
  }
  return add(signature);
}

Program Programs::exact(const Signature& signature) {
  const std::lock_guard compiling(compiling_);
  if (Program known = find([&](const Pattern& pattern) { return pattern == signature; })) return known;
  return add(signature);
}

Program Programs::add(Pattern pattern) {
  Program program = compile_(pattern);
  const std::lock_guard guard(lock_);
  // A program with symbols replaces those whose sizes it covers; states that run them keep them.
  if (has_symbols(pattern))
    std::erase_if(variants_, [&](const Variant& old) { return matches(pattern, old.pattern); });
  if (variants_.size() == kMostVariants)
    variants_.erase(std::min_element(variants_.begin(), variants_.end(),
                                     [](const Variant& a, const Variant& b) { return a.used < b.used; }));
  // A program of exact sizes comes before one with symbols, which refused these sizes.
  const auto place = has_symbols(pattern) ? variants_.end() : variants_.begin();
  variants_.insert(place, Variant{std::move(pattern), program, ++requests_});
  return program;
}

}  // namespace tenon::plugin
