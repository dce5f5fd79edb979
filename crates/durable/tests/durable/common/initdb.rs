//! Where a server of PostgreSQL's is, and who runs it.
//!
//! `TICKLESS_POSTGRES_BIN` names the directory of its programs, if that is an unusual one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Where the server's programs are: the latest version's.
pub(crate) fn programs() -> Option<PathBuf> {
    let has_server = |bin: &PathBuf| bin.join("initdb").exists() && bin.join("pg_ctl").exists();
    if let Some(bin) = env::var_os("TICKLESS_POSTGRES_BIN") {
        return Some(PathBuf::from(bin)).filter(has_server);
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    found.sort_by_key(|bin| version_of(bin));
    found.reverse();
    found.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    found.into_iter().find(has_server)
}

fn version_of(bin: &Path) -> u32 {
    let version = bin.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A user and a group for the server, if this program is root's.
pub(crate) fn somebody_else() -> Result<Option<(u32, u32)>, String> {
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let found = ["postgres", "nobody"]
        .iter()
        .find_map(|name| Some((id(&["-u", name]).ok()?, id(&["-g", name]).ok()?)));
    found.map(Some).ok_or_else(|| "there is no user for the server".to_owned())
}

fn id(arguments: &[&str]) -> Result<u32, String> {
    let output = Command::new("id").args(arguments).stderr(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("id tells {text:?}"))
}
