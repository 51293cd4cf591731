# `make demo` shows the product, `make test` tests it; both install what is missing (Debian).
.PHONY: demo test bench tools
