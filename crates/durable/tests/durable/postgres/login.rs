//! How the command line connects: with TLS, and with what the environment says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tickless_durable::store::PostgresStore;

use super::server::Place;

/// A server whose role `secret` needs TLS and the password `a:b\c`, and a file that has it.
struct Scene {
    place: Place,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Option<Scene> {
        let place = Place::new()?;
        PostgresStore::make_tables(&place.url, &place.schema, 1).unwrap();
        let schema = &place.schema;
        let make = format!(
            "DO $$ BEGIN CREATE ROLE secret LOGIN PASSWORD 'a:b\\c';
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
             GRANT USAGE ON SCHEMA {schema} TO secret;
             GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO secret"
        );
        place.client().batch_execute(&make).unwrap();
        Some(Scene { place, directory: tempfile::tempdir().unwrap() })
    }

    /// Counts the timers: how that ended, and what was said.
    fn count(&self, query: &str, environment: &[(&str, &str)]) -> (i32, String) {
        let port = self.place.port;
        let address = format!("postgres://secret@localhost:{port}/postgres{query}");
        let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        program.args([&*address, "--schema", &self.place.schema, "count", "--json"]);
        program.env("HOME", self.directory.path()).env_remove("PGPASSWORD");
        // The server listens on one of the addresses of the name.
        let output = program.envs(environment.iter().copied()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    fn roots(&self) -> String {
        self.place.roots().display().to_string()
    }

    /// A file with passwords that only its owner can read, or others, too.
    fn passwords(&self, text: &str, mode: u32) -> String {
        let path = self.directory.path().join("passwords");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    }
}

#[test]
fn the_command_line_connects_by_tls_with_a_password_of_the_environment() {
    let Some(scene) = Scene::new() else { return };
    let (roots, password) = (scene.roots(), ("PGPASSWORD", "a:b\\c"));
    let mode = ("PGSSLMODE", "require");
    let all = [("PGSSLROOTCERT", &*roots), password, mode];
    let (code, said) = scene.count("", &all);
    assert!(code == 0 && said.contains("\"timers\":0"), "{said}");
    // The address says more than the environment does.
    let query = format!("?sslmode=verify-full&sslrootcert={}", roots.replace('/', "%2F"));
    let (code, said) = scene.count(&query, &[password, ("PGSSLMODE", "disable")]);
    assert_eq!(code, 0, "{said}");
    // Nobody whom the system trusts has signed this server's certificate.
    let (code, said) = scene.count("?sslmode=require", &[password]);
    assert!(code == 2 && said.contains("UnknownIssuer"), "{said}");
    assert!(said.contains("PGSSLROOTCERT can name"), "{said}");
    // The server wants it.
    let (code, said) = scene.count("?sslmode=disable", &[password]);
    assert!(code == 2 && said.contains("no encryption"), "{said}");
}

#[test]
fn the_command_line_finds_the_password_in_a_file() {
    let Some(scene) = Scene::new() else { return };
    let (roots, port) = (scene.roots(), scene.place.port);
    let line = format!("localhost:{port}:*:secret:a\\:b\\\\c\n");
    let text = format!("# A word.\nother:*:*:*:none\n{line}*:*:*:*:later\n");
    let file = scene.passwords(&text, 0o600);
    let count = |file: &str| scene.count("", &[("PGSSLROOTCERT", &roots), ("PGPASSFILE", file)]);
    let (code, said) = count(&file);
    assert_eq!(code, 0, "{said}");
    let file = scene.passwords(&text, 0o640);
    let (code, said) = count(&file);
    assert!(code == 2 && said.contains("chmod 600"), "{said}");
    let file = scene.passwords("other:*:*:*:none\n", 0o600);
    let (code, said) = count(&file);
    assert!(code == 2 && said.contains("password"), "{said}");
    let (code, said) = count("/nowhere/passwords");
    assert!(code == 2 && said.contains("/nowhere/passwords"), "{said}");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_connected() {
    let Some(scene) = Scene::new() else { return };
    let (code, said) = scene.count("?sslmode=verify", &[]);
    assert!(code == 2 && said.contains("choose disable"), "{said}");
    let (code, said) = scene.count("", &[("PGSSLROOTCERT", "/nowhere/roots")]);
    assert!(code == 2 && said.contains("/nowhere/roots"), "{said}");
    let told = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        let output = program.args(arguments).env_remove("PGHOST").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = told(&["postgres:///timers", "count"]);
    assert!(code == Some(2) && said.contains("PGHOST"), "{said}");
    let (code, said) = told(&["timers.redb", "count", "--credentials", "file"]);
    assert!(code == Some(2) && said.contains("--credentials"), "{said}");
    #[cfg(feature = "nats")]
    {
        let nats = ["nats://127.0.0.1:1", "count", "--credentials"];
        let (code, said) = told(&[&nats[..], &["/nowhere/file"]].concat());
        assert!(code == Some(2) && said.contains("/nowhere/file"), "{said}");
        let file = scene.passwords("no credentials", 0o600);
        let (code, said) = told(&[&nats[..], &[&file]].concat());
        assert!(code == Some(2) && said.contains("no file of credentials"), "{said}");
    }
}
