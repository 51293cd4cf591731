//! The program: read the arguments, do what they ask for, say once what went wrong.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use stampede_exporter::cli::{self, Command, Stop};
use stampede_exporter::config::{Config, ConfigError, Flags, Log, LogFormat, LogLevel};
use stampede_exporter::one_line::one_line;
use stampede_exporter::run::run;
use stampede_exporter::signals::Ends;
use stampede_exporter::{backtest, ttl_command};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Wrong arguments or a wrong configuration.
const WRONG_INPUT: u8 = 2;
/// Anything else that went wrong.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os().collect()) {
        Ok(command) => command,
        Err(Stop::Answer(text)) => return finish(print(&text)),
        Err(Stop::Refusal(text)) => {
            complain(&text);
            return ExitCode::from(WRONG_INPUT);
        }
    };
    finish(execute(command))
}

fn execute(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(source, flags) => {
            let config = source.load(&flags)?;
            log_to_stderr(config.log);
            let runtime = one_thread()?;
            let result = runtime.block_on(run(config, move || source.load(&flags)));
            // A name that is being resolved or a file that is being read cannot be cancelled, and
            // must not hold up the end.
            runtime.shutdown_background();
            Ok(result?)
        }
        Command::Check(file) => check(&file),
        Command::Ttl(options) => look(&options),
        Command::Backtest(options) => {
            Ok(backtest::run(&options, &mut std::io::stdout().lock(), &mut std::io::stderr())?)
        }
        Command::Drill(drills) => drill(drills),
        Command::Demo(options) => show(options),
        Command::Print(text) => print(text),
    }
}

/// Reads the configuration and says what it watches.
fn check(file: &Path) -> anyhow::Result<()> {
    let config = Config::from_file(file, &Flags::default())?;
    let caches = config.caches.len();
    let apps: usize = config.caches.iter().map(|cache| cache.apps.len()).sum();
    let address = config.web.listen_address;
    let file = file.display();
    print(&format!("{file}: fine; caches {caches}, applications {apps}, listening on {address}\n"))
}

/// Looks at a server; the progress is for a person who waits at a terminal.
fn look(options: &ttl_command::Options) -> anyhow::Result<()> {
    let mut nobody = std::io::sink();
    let mut terminal = std::io::stderr();
    let progress: &mut dyn Write = if terminal.is_terminal() { &mut terminal } else { &mut nobody };
    Ok(one_thread()?.block_on(ttl_command::run(options, &mut std::io::stdout(), progress))?)
}

/// Drills until the end or a signal, which cleans up too.
fn drill(drills: Vec<stampede_exporter::drill::Options>) -> anyhow::Result<()> {
    one_thread()?.block_on(async {
        let mut end = std::pin::pin!(asked_to_end()?);
        for options in drills {
            let mut out = std::io::stdout();
            let reports = stampede_exporter::drill::run(options, &mut out, end.as_mut()).await?;
            if reports.iter().any(|report| report.interrupted) {
                break;
            }
        }
        Ok(())
    })
}

/// Shows everything until the end or a signal, which cleans up too.
fn show(options: stampede_exporter::demo::Options) -> anyhow::Result<()> {
    one_thread()?.block_on(async {
        stampede_exporter::demo::run(options, &mut std::io::stdout(), asked_to_end()?).await?;
        Ok(())
    })
}

/// Catches the signals that ask for the end from now on; what it gives waits for the first.
fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let mut ends = Ends::catch_in_terminal().context("cannot catch signals")?;
    Ok(async move {
        ends.next().await;
    })
}

/// One thread is plenty for a poll a second, answers a scrape without waking another, and keeps one
/// heap; a drill's requests, too, are answered sooner than by two threads that wake each other. What may
/// take long, names and files, has threads of its own, and so has the clock of a drill's load.
fn one_thread() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the program")
}

/// Sends the log to stderr. Libraries speak up from warnings on: what they say below that is
/// about their own business and may hold what goes over a connection.
fn log_to_stderr(log: Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("stampede_exporter", level);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    match log.format {
        LogFormat::Text => {
            registry.with(lines.with_ansi(std::io::stderr().is_terminal())).init();
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
}

/// Says once what went wrong, and turns it into the exit code.
fn finish(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    match error.downcast_ref::<ConfigError>() {
        Some(problems) => {
            complain(&format!("{problems}\n"));
            ExitCode::from(WRONG_INPUT)
        }
        None => {
            complain(&format!("stampede-exporter: {}\n", one_line(error.as_ref())));
            ExitCode::from(FAILED)
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to stdout")
}

/// Writes to stderr; when that is closed too, the exit code has to do.
fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
