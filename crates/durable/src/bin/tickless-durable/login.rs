//! Who connects to a server, and how: by its address, and by what the environment says beside it.
//!
//! For PostgreSQL, that is what `psql` goes by: `PGUSER`, `PGPASSWORD`, `PGPASSFILE`. The address
//! comes first. A certificate is checked whenever there is TLS, against the name
//! of the host, and by the system's roots or by those of `PGSSLROOTCERT`.

use std::env;

use tickless_durable::Cluster;
use tickless_durable::cluster::Builder;

use super::place::Answer;

#[cfg(feature = "postgres")]
pub(crate) use database::database;

/// Servers of NATS, with the credentials of a file if one is named, or `NATS_CREDS` names one.
#[cfg(feature = "nats")]
pub(crate) fn nats(address: &str, credentials: Option<&str>) -> Answer<Builder> {
    let builder = Cluster::nats(address);
    let Some(file) = credentials.map(str::to_owned).or_else(|| variable("NATS_CREDS")) else {
        return Ok(builder);
    };
    #[cfg(feature = "tls")]
    {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let options = async_nats::ConnectOptions::with_credentials(&text)
            .map_err(|error| format!("{file} is no file of credentials: {error}"))?;
        Ok(builder.connect_options(options.name("tickless")))
    }
    #[cfg(not(feature = "tls"))]
    Err(format!("{file} is not read: this program was built without the feature tls").into())
}

/// A variable of the environment that says something.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(feature = "postgres")]
mod database {
    use std::fs;
    use std::path::PathBuf;

    use tokio_postgres::Config;
    use tokio_postgres::config::{Host, SslMode};

    use super::{Answer, Builder, Cluster, variable};

    /// A database, with what the environment says of what its address leaves open.
    pub(crate) fn database(address: &str) -> Answer<Builder> {
        let (address, mode, roots) = apart(address);
        let mut config: Config = address.parse()?;
        complete(&mut config)?;
        let mode = mode.or_else(|| variable("PGSSLMODE")).unwrap_or_else(|| "prefer".to_owned());
        config.ssl_mode(match &*mode {
            "disable" => SslMode::Disable,
            "prefer" => SslMode::Prefer,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            _ => {
                let known = "disable, prefer, require, verify-ca or verify-full";
                return Err(format!("sslmode cannot be {mode:?} here: choose {known}").into());
            }
        });
        let roots = roots.or_else(|| variable("PGSSLROOTCERT"));
        secured(config, roots.filter(|roots| roots != "system"))
    }

    /// The address without what its client does not know: `sslmode` and `sslrootcert`.
    fn apart(address: &str) -> (String, Option<String>, Option<String>) {
        let Some((place, query)) = address.split_once('?') else {
            return (address.to_owned(), None, None);
        };
        let (mut mode, mut roots) = (None, None);
        let is_other = |pair: &&str| {
            let slot = match pair.split_once('=') {
                Some(("sslmode", value)) => (&mut mode, value),
                Some(("sslrootcert", value)) => (&mut roots, value),
                _ => return true,
            };
            *slot.0 = Some(percent_decoded(slot.1));
            false
        };
        let others: Vec<&str> = query.split('&').filter(is_other).collect();
        (format!("{place}?{}", others.join("&")), mode, roots)
    }

    fn percent_decoded(value: &str) -> String {
        #[cfg(feature = "tls")]
        return percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        #[cfg(not(feature = "tls"))]
        value.to_owned()
    }

    fn complete(config: &mut Config) -> Answer<()> {
        if config.get_hosts().is_empty() {
            let host = variable("PGHOST").ok_or("the address names no host: set PGHOST")?;
            config.host(&host);
        }
        if let (true, Some(port)) = (config.get_ports().is_empty(), variable("PGPORT")) {
            let port = port.parse().map_err(|_| format!("PGPORT is no port: {port:?}"))?;
            config.port(port);
        }
        if let (None, Some(user)) = (config.get_user(), variable("PGUSER")) {
            config.user(user);
        }
        if let (None, Some(database)) = (config.get_dbname(), variable("PGDATABASE")) {
            config.dbname(database);
        }
        if config.get_password().is_none() {
            let password = match variable("PGPASSWORD") {
                Some(password) => Some(password),
                None => in_file(config)?,
            };
            if let Some(password) = password {
                config.password(password);
            }
        }
        Ok(())
    }

    /// The password that the file has for this host, port, database and user. As `psql` does, this
    /// reads no file that others can read: but it says so.
    fn in_file(config: &Config) -> Answer<Option<String>> {
        let named = variable("PGPASSFILE").map(PathBuf::from);
        let is_named = named.is_some();
        let home = || Some(PathBuf::from(variable("HOME")?).join(".pgpass"));
        let Some(path) = named.or_else(home) else { return Ok(None) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(_) if !is_named => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            if fs::metadata(&path)?.permissions().mode() & 0o77 != 0 {
                let path = path.display();
                return Err(format!("others can use {path}: chmod 600 {path}").into());
            }
        }
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            _ => "localhost".to_owned(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
        let user = config.get_user().map(str::to_owned).or_else(|| variable("USER"));
        let user = user.unwrap_or_default();
        let database = config.get_dbname().unwrap_or(&user).to_owned();
        let wanted = [host, port, database, user];
        let is_line = |fields: &Vec<String>| {
            let fits = |(field, wanted): (&String, &String)| field == "*" || field == wanted;
            fields.len() == 5 && fields.iter().zip(&wanted).all(fits)
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.map(fields).find(is_line).and_then(|mut fields| fields.pop()))
    }

    /// What stands between colons. A backslash takes a colon's or a backslash's meaning away.
    fn fields(line: &str) -> Vec<String> {
        let (mut fields, mut chars) = (vec![String::new()], line.chars());
        while let Some(char) = chars.next() {
            let last = fields.len() - 1;
            match char {
                ':' if last < 4 => fields.push(String::new()),
                '\\' => fields[last].extend(chars.next()),
                char => fields[last].push(char),
            }
        }
        fields
    }

    #[cfg(feature = "tls")]
    fn secured(config: Config, file: Option<String>) -> Answer<Builder> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        use rustls::{ClientConfig, RootCertStore, crypto::ring};

        if config.get_ssl_mode() == SslMode::Disable {
            return Ok(Cluster::with_config(config));
        }
        let mut roots = RootCertStore::empty();
        match file {
            // Without any, no certificate is valid, and there may be no TLS.
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(found);
            }
            Some(file) => {
                let told = |error| format!("{file} has no certificates that can be read: {error}");
                for certificate in CertificateDer::pem_file_iter(&file).map_err(told)? {
                    let added = roots.add(certificate.map_err(told)?);
                    added.map_err(|error| format!("{file}: {error}"))?;
                }
            }
        }
        let tls = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = tokio_postgres_rustls::MakeRustlsConnect::new(tls);
        Ok(Cluster::with_config(config).tls(connector))
    }

    #[cfg(not(feature = "tls"))]
    fn secured(config: Config, _: Option<String>) -> Answer<Builder> {
        if config.get_ssl_mode() == SslMode::Require {
            return Err("this program was built without the feature tls".into());
        }
        Ok(Cluster::with_config(config))
    }
}
