#!/bin/sh
# Section 3.3: deletes N of the files f.* of this folder, chosen at random, the same ones each time: this file is the chance.
LC_ALL=C
export LC_ALL
printf '%s\n' f.* | sort | shuf -n "${1:?how many files to delete}" --random-source="$0" | xargs rm --
sync
