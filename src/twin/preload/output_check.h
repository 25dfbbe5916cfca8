// Finds out whether the program has lost some of its output, which stdio reports, but fio does not look at.
#pragma once

namespace twin {

// Lets a write beyond the limit of a file's size (ulimit -f) return an error, which check_output() finds. Without this,
// the kernel ends the program without a message.
void set_up_output_check();

// Ends the program with a message if data that it wrote with stdio did not reach their file. Call it when the program
// exits with status 0.
void check_output();

}  // namespace twin
