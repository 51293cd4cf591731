//! Certificates, and a redis-server with one.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::redis::{Redis, free_port};
use super::wait_for;

/// A certificate authority and the directory in which it puts what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub ca_file: PathBuf,
}

/// A signed certificate and its key.
#[derive(Clone)]
pub struct Identity {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

impl Authority {
    pub fn new(dir: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let ca_file = dir.join(format!("{name}-ca.pem"));
        std::fs::write(&ca_file, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), ca_file }
    }

    /// Signs for host names or addresses; `until` is the last year of its validity.
    pub fn sign(&self, names: &[&str], until: i32) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let stem = format!("{}-{until}", names.join("-").replace(':', "_"));
        let file = |kind: &str| self.ca_file.with_file_name(format!("{stem}-{kind}.pem"));
        let identity = Identity { cert_file: file("cert"), key_file: file("key") };
        std::fs::write(&identity.cert_file, certificate.pem()).unwrap();
        std::fs::write(&identity.key_file, key.serialize_pem()).unwrap();
        identity
    }
}

/// A year that no test lives to see.
pub const VALID: i32 = 2090;

/// A year that is over.
pub const EXPIRED: i32 = 2020;

/// A server with a TLS port.
pub struct Server {
    pub redis: Redis,
    pub port: u16,
}

impl Server {
    pub fn start(authority: &Authority, identity: &Identity, more: &[&str]) -> Server {
        let port = free_port();
        let (text, ca) = (port.to_string(), authority.ca_file.display().to_string());
        let cert = identity.cert_file.display().to_string();
        let key = identity.key_file.display().to_string();
        let mut args = vec!["--tls-port", &text, "--tls-ca-cert-file", &ca];
        args.extend(["--tls-cert-file", &cert, "--tls-key-file", &key]);
        args.extend(more);
        let redis = Redis::start_with(&args);
        wait_for("the TLS port", || TcpStream::connect(("127.0.0.1", port)).ok());
        Server { redis, port }
    }
}

/// For a server that asks its clients for no certificate.
pub const NO_CLIENTS: [&str; 2] = ["--tls-auth-clients", "no"];
