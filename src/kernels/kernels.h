#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Kernel texts and the small template language that fills them. A template holds
//   {{name}}                      the value of a variable, or the number of a loop
//   {{>file}}                     another kernel file, expanded with the same variables
//   {{>file name=value}}          the same with one set: to a number, or to the value of another
//   {{#name}} … {{/name}}         kept where the variable is set, not empty and not "0"
//   {{^name}} … {{/name}}         kept where it is not
//   {{@i=count}} … {{/i}}         repeated with i = 0 … count-1; count is a variable, a number or a loop's number
// A name that has no value is an error: a template never expands to something that only looks right.

namespace gyrus {

struct EmbeddedKernel {
  std::string_view name;  // of the file, without suffix
  std::string_view text;
};

// Every src/kernels/*.wgsl, made at build time.
const std::vector<EmbeddedKernel>& embedded_kernels();

using KernelVars = std::map<std::string, std::string>;

// The kernel file of that name with its template filled, without functions act_… (elementwise.wgsl) that it does not
// call: drivers would compile them all.
std::string expand_kernel(std::string_view name, const KernelVars& vars);
// The same for a text.
std::string expand_template(std::string_view text, const KernelVars& vars);

}  // namespace gyrus
