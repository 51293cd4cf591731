//! A server that says what the test wants it to say, and a proxy between two servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// One connection to a [`Fake`].
pub struct Client {
    /// How many connections were made before this one.
    pub number: usize,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    /// The next command, or `None` when the client is gone.
    pub fn command(&mut self) -> Option<Vec<String>> {
        let words = self.line()?.strip_prefix('*')?.parse().ok()?;
        (0..words)
            .map(|_| {
                let length: usize = self.line()?.strip_prefix('$')?.parse().ok()?;
                let mut word = vec![0; length + 2];
                self.reader.read_exact(&mut word).ok()?;
                word.truncate(length);
                Some(String::from_utf8_lossy(&word).into_owned())
            })
            .collect()
    }

    /// Writes bytes as they are; a client that is gone is not the server's trouble.
    pub fn say(&mut self, bytes: &[u8]) {
        let _ = self.says(bytes);
    }

    /// Writes bytes as they are; `false` when the client is gone.
    pub fn says(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Answers every command with the same bytes until the client is gone.
    pub fn always_say(&mut self, bytes: &[u8]) {
        while self.command().is_some() {
            self.say(bytes);
        }
    }

    /// Waits until the client closes the connection.
    pub fn wait_for_end(&mut self) {
        let _ = self.reader.read_to_end(&mut Vec::new());
    }

    /// Waits a little for the client's end; what it sends meanwhile is lost.
    pub fn ends_within(&mut self, limit: std::time::Duration) -> bool {
        self.stream.set_read_timeout(Some(limit)).expect("a read timeout");
        matches!(self.reader.read(&mut [0; 64]), Ok(0))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    }
}

/// Listens on a free port (the threads end with the test process).
pub struct Fake {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    /// Runs `serve` for each connection; the connection is closed when it returns.
    pub fn start(serve: impl Fn(Client) + Send + Sync + 'static) -> Fake {
        Fake::accept(move |number, stream| {
            let reader = BufReader::new(stream.try_clone().expect("a second handle"));
            serve(Client { number, stream, reader });
        })
    }

    /// Answers every command with the same bytes.
    pub fn saying(bytes: &'static [u8]) -> Fake {
        Fake::start(move |mut client| client.always_say(bytes))
    }

    /// Passes each new connection on to the next of `ports` in turn, and closes it after
    /// `answers` answers of the server.
    pub fn in_turn(ports: Vec<u16>, answers: usize) -> Fake {
        Fake::accept(move |number, client| {
            let server = TcpStream::connect(("127.0.0.1", ports[number % ports.len()]));
            let server = server.expect("the server behind the proxy");
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let mut reader = BufReader::new(&server);
            for _ in 0..answers {
                let Some(()) = pass_answer(&mut reader, &client) else { break };
            }
            let _ = client.shutdown(Shutdown::Both);
        })
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn accept(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, counter) = (Arc::new(serve), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(number, stream));
            }
        });
        Fake { port, connections }
    }
}

/// An address that leads to one server, and from some time on to another one, as after a failover.
pub struct Relay {
    pub port: u16,
    target: Arc<Mutex<Target>>,
}

struct Target {
    port: u16,
    open: Vec<TcpStream>,
}

impl Relay {
    /// Passes connections on to this port.
    pub fn to(port: u16) -> Relay {
        let target = Arc::new(Mutex::new(Target { port, open: Vec::new() }));
        let shared = Arc::clone(&target);
        let fake = Fake::accept(move |_, client| {
            let server = {
                let mut target = shared.lock().expect("the target");
                let server = TcpStream::connect(("127.0.0.1", target.port)).expect("the server");
                let handles = [&client, &server].map(|end| end.try_clone().expect("a handle"));
                target.open.extend(handles);
                server
            };
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let _ = std::io::copy(&mut &server, &mut &client);
        });
        Relay { port: fake.port, target }
    }

    /// Closes all connections, and passes new ones on to this port.
    pub fn switch(&self, port: u16) {
        let mut target = self.target.lock().expect("the target");
        target.port = port;
        for end in target.open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// A RESP2 bulk string.
pub fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Passes one bulk string on from a server.
fn pass_answer(server: &mut impl BufRead, mut client: &TcpStream) -> Option<()> {
    let mut head = String::new();
    server.read_line(&mut head).ok().filter(|read| *read > 0)?;
    let length: usize = head.trim_end().strip_prefix('$')?.parse().ok()?;
    let mut body = vec![0; length + 2];
    server.read_exact(&mut body).ok()?;
    client.write_all(head.as_bytes()).ok()?;
    client.write_all(&body).ok()
}
