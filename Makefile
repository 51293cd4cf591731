# `make demo` shows the product, `make test` tests it. Both install what is missing (Debian) and
# say what to install elsewhere.
.PHONY: demo test bench results test-servers tools

# rustup puts cargo there; a shell that was open before does not know it yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# A cache stampede from nothing, seen as it happens; `make demo ARGS=--keep` leaves it running.
demo:
	scripts/tools cargo cc redis-server
	cargo run --release --locked -- demo $(ARGS)

# The rules, their tests and the golden page go through promtool inside the tests.
test: tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --lib --workspace
	cargo test --locked --workspace

# The tables of what watching costs, side by side with Debian's exporter.
bench:
	scripts/tools cargo cc redis-server redis-cli prometheus-redis-exporter
	cargo bench --locked

# What the tests of the server's side say on other versions than the machine's own.
test-servers: tools
	scripts/tools pip3
	scripts/servers

# Every scenario under every protection: 160 runs, an hour. Best on a machine that is idle.
results:
	scripts/tools cargo cc redis-server
	cargo build --release --locked
	scripts/drill-results target/release/stampede-exporter > docs/drill-results.md

tools:
	scripts/tools cargo cc redis-server redis-cli prometheus promtool prometheus-alertmanager \
	    postgres chromium
