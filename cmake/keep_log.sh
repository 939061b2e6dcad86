#!/bin/sh
# Runs a compiler and keeps what it says beside the object, as OBJECT.log: ptxas tells there how
# many registers a kernel takes, and whether it spills. What is only that is not shown.
previous=
for argument; do
    [ "$previous" = -o ] && object=$argument
    previous=$argument
done
"$@" 2>"$object.log"
status=$?
grep -v -e '^ptxas info *: \(Used\|Compiling\|Function properties\|Compile time\|[0-9]* bytes\)' \
    -e '^ *[0-9]* bytes stack frame' "$object.log" >&2
exit $status
