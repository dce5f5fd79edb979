//! A small disk, in memory, that can be filled.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How much it takes.
const SIZE: usize = 64 << 20;

/// It is gone when the pipe is closed, by whatever death of this program.
const SCRIPT: &str = r#"
    mount -t tmpfs -o size=$2,mode=0777 tickless "$1" 2>/dev/null && echo ready || exit
    read -r _
    umount -l "$1"
"#;

pub(crate) struct Disk {
    directory: PathBuf,
    script: Child,
}

// === impl Disk ===

impl Disk {
    /// Makes the directory, and mounts the disk there; `None`: that is not permitted.
    pub(crate) fn mount(directory: &Path) -> Option<Disk> {
        fs::create_dir_all(directory).unwrap();
        let mut script = Command::new("sh");
        script.args(["-c", SCRIPT, "disk"]).arg(directory).arg(SIZE.to_string());
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            script.wait().unwrap();
            return None;
        }
        Some(Disk { directory: directory.to_owned(), script })
    }

    /// Leaves so many bytes, or a little more.
    pub(crate) fn fill_but(&self, room: u64) {
        let mut file = File::create(self.filling()).unwrap();
        let zeros = vec![0; 1 << 16];
        while file.write_all(&zeros).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(room)).unwrap();
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.filling()).unwrap();
    }

    fn filling(&self) -> PathBuf {
        self.directory.join("filling")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
