// Writes docs/ops.md: ops_table FILE
#include <cstdio>
#include <fstream>

#include "support/ops_doc.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ops_table FILE\n");
    return 2;
  }
  std::ofstream file(argv[1]);
  file << gyrus::test::ops_document();
  file.close();
  if (file) return 0;
  std::fprintf(stderr, "[%s] cannot be written\n", argv[1]);
  return 1;
}
