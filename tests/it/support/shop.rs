//! An application in front of a cache: looks up, loads what is missing, counts, shows its counters.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::page::Page;
use super::redis::Redis;

/// Lookups of one step; a hundredth of a second of work when it steps as often as `wait_for` asks.
const LOOKUPS: u64 = 10;
/// Products that are kept in the cache.
const PRODUCTS: u64 = 200;

/// A cache-aside client with one popular entry. It works only when it is stepped, so a test needs
/// neither a thread nor a pause.
pub struct Shop {
    wire: BufReader<TcpStream>,
    page: Page,
    counts: Counts,
    steps: u64,
    /// Whether the popular entry is written back after a load. While it is not, everyone who asks
    /// for it loads it anew: that is the stampede.
    pub front_page_loads: bool,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    loads: u64,
    coalesced: u64,
    not_found: u64,
    lock_acquired: u64,
    lock_contended: u64,
}

impl Shop {
    /// Opens with a warm cache.
    pub fn open(redis: &Redis) -> Shop {
        let wire = TcpStream::connect(("127.0.0.1", redis.port)).expect("a connection");
        let mut shop = Shop {
            wire: BufReader::new(wire),
            page: Page::start(""),
            counts: Counts::default(),
            steps: 0,
            front_page_loads: true,
        };
        for product in 0..PRODUCTS {
            shop.command(&format!("SET product:{product} x EX {}", 600 + product));
        }
        shop.command("SET front x");
        shop.show();
        shop
    }

    /// Where the counters are.
    pub fn url(&self) -> String {
        self.page.url()
    }

    /// The popular entry runs out now.
    pub fn expire_front_page(&mut self) {
        self.command("PEXPIRE front 1");
    }

    /// Serves a few customers: three in ten want the front page, one in a hundred something that
    /// does not exist, and one entry of a moment is written, to run out by itself.
    pub fn step(&mut self) {
        self.steps += 1;
        self.command(&format!("SET moment:{} x PX 300", self.steps));
        for customer in 0..LOOKUPS {
            let number = self.steps * LOOKUPS + customer;
            match number {
                n if n % 100 == 99 => self.look_up(&format!("absent:{n}")),
                _ if customer < 3 => self.look_up("front"),
                n => self.look_up(&format!("product:{}", n % PRODUCTS)),
            }
        }
        self.show();
    }

    fn look_up(&mut self, key: &str) {
        if self.command(&format!("GET {key}")).is_some() {
            self.counts.hits += 1;
            return;
        }
        self.counts.misses += 1;
        if key != "front" || self.front_page_loads {
            self.counts.lock_acquired += 1;
            self.counts.loads += 1;
        } else if self.counts.misses.is_multiple_of(2) {
            // Somebody else's load of the front page runs; half of the others do not wait for it.
            self.counts.lock_contended += 1;
            self.counts.loads += 1;
        } else {
            self.counts.lock_contended += 1;
            self.counts.coalesced += 1;
        }
        if key.starts_with("absent") {
            self.counts.not_found += 1;
        } else if key != "front" || self.front_page_loads {
            self.command(&format!("SET {key} x EX 600"));
        }
    }

    /// Sends a command without spaces in its words, and gives a value's text if there is one.
    fn command(&mut self, words: &str) -> Option<String> {
        self.wire.get_mut().write_all(format!("{words}\r\n").as_bytes()).expect("sent");
        let mut head = String::new();
        self.wire.read_line(&mut head).expect("a reply");
        let head = head.trim_end();
        let length = match head.strip_prefix('$') {
            Some("-1") => return None,
            Some(length) => length.parse::<usize>().expect("a length"),
            None if head.starts_with('-') => panic!("{words}: {head}"),
            None => return Some(head.to_owned()),
        };
        let mut body = vec![0; length + 2];
        self.wire.read_exact(&mut body).expect("a value");
        Some(String::from_utf8_lossy(&body[..length]).into_owned())
    }

    fn show(&self) {
        let Counts { hits, misses, loads, coalesced, not_found, lock_acquired, lock_contended } =
            self.counts;
        self.page.set(&format!(
            "cache_hits_total {hits}\n\
             cache_misses_total {misses}\n\
             cache_loads_total {loads}\n\
             cache_loads_coalesced_total {coalesced}\n\
             cache_errors_total 0\n\
             cache_not_found_total {not_found}\n\
             cache_lock_attempts_total{{result=\"acquired\"}} {lock_acquired}\n\
             cache_lock_attempts_total{{result=\"contended\"}} {lock_contended}\n\
             cache_lock_attempts_total{{result=\"timeout\"}} 0\n\
             cache_lock_attempts_total{{result=\"error\"}} 0\n\
             # TYPE cache_load_duration_seconds histogram\n\
             cache_load_duration_seconds_bucket{{le=\"0.05\"}} 0\n\
             cache_load_duration_seconds_bucket{{le=\"0.1\"}} {loads}\n\
             cache_load_duration_seconds_bucket{{le=\"+Inf\"}} {loads}\n\
             cache_load_duration_seconds_sum {}\n\
             cache_load_duration_seconds_count {loads}\n",
            loads as f64 * 0.08
        ));
    }
}
