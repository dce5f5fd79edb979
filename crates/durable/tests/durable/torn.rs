//! A disk that forgets what was not synced: after a crash, any part of the writes since the last
//! sync is there, in sectors of 512 bytes, and the rest is as it was. What a commit has returned
//! for must be there, and a batch that was cut is there as a whole or not at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::prelude::*;
use redb::StorageBackend;
use tickless_durable::{Op, Position, Record, RedbOptions, Store};

use crate::common;
use crate::common::random::Random;

const SECTOR: usize = 512;

/// A disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What a crash leaves for certain.
    synced: Vec<u8>,
    /// What reads see.
    written: Vec<u8>,
    /// After how many more writes and syncs the machine stops.
    left: Option<u32>,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The machine starts again, with any part of what was not synced: `random` decides.
    fn crash(&self, random: &mut Random) {
        let mut state = self.state();
        let State { synced, written, left } = &mut *state;
        *left = None;
        // The length is one of the two, or what the writes have reached.
        if random.below(2) == 0 {
            synced.resize(written.len(), 0);
        }
        let length = synced.len().min(written.len());
        for at in (0..length).step_by(SECTOR) {
            let sector = at..length.min(at + SECTOR);
            if random.below(2) == 0 {
                synced[sector.clone()].copy_from_slice(&written[sector]);
            }
        }
        *written = synced.clone();
    }
}

impl State {
    fn count(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => Err(io::Error::other("the machine has stopped")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// One opening of a disk.
#[derive(Debug)]
struct Backend(Disk);

type BackendResult<T> = Result<T, io::Error>;

impl StorageBackend for Backend {
    fn len(&self) -> BackendResult<u64> {
        Ok(self.0.state().written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> BackendResult<()> {
        let state = self.0.state();
        let offset = offset as usize;
        out.copy_from_slice(&state.written[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> BackendResult<()> {
        let mut state = self.0.state();
        state.count()?;
        state.written.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> BackendResult<()> {
        let mut state = self.0.state();
        state.count()?;
        state.synced = state.written.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> BackendResult<()> {
        let mut state = self.0.state();
        state.count()?;
        let offset = offset as usize;
        state.written[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn record(number: u64) -> Record {
    let position = Position { due_ms: number * 7919 % 1000, number };
    Record::new(position, None, vec![number as u8; 60].into())
}

/// A batch: some timers come, some of the first ones go.
fn batch(model: &BTreeMap<Position, Record>, first: u64, puts: u64, removes: usize) -> Vec<Op> {
    let puts = (first..first + puts).map(|number| Op::Put(Arc::new(record(number))));
    let removes = model.keys().take(removes).map(|position| Op::Remove(*position));
    removes.chain(puts).collect()
}

fn apply(model: &mut BTreeMap<Position, Record>, batch: &[Op]) {
    for op in batch {
        match op {
            Op::Put(record) => {
                model.insert(record.position, (**record).clone());
            }
            Op::Remove(position) => {
                model.remove(position);
            }
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: common::scale::cases(60.0),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_committed_survives_and_a_batch_is_all_or_nothing(
        seed in any::<u64>(),
        crashes in proptest::collection::vec(
            (proptest::collection::vec((0..80_u64, 0..40_usize), 1..6), 0..60_u32),
            1..8,
        ),
    ) {
        let (disk, mut random) = (Disk::default(), Random(seed));
        let mut model = BTreeMap::new();
        let mut number = 1;
        for (batches, stops_after) in crashes {
            let mut store = RedbOptions::new().open_backend(Backend(disk.clone())).unwrap();
            let found = |store: &mut dyn Store| -> BTreeMap<Position, Record> {
                let records = store.scan(None, usize::MAX).unwrap();
                records.into_iter().map(|record| (record.position, record)).collect()
            };
            prop_assert_eq!(&found(&mut store), &model);
            disk.state().left = Some(stops_after);
            let mut cut = None;
            for (puts, removes) in batches {
                let batch = batch(&model, number, puts, removes);
                number += puts;
                let before = model.clone();
                apply(&mut model, &batch);
                if store.commit(&batch).is_err() {
                    cut = Some(before);
                    break;
                }
            }
            // What closing the store writes is lost in part as well.
            drop(store);
            disk.crash(&mut random);
            if let Some(before) = cut {
                let mut store = RedbOptions::new().open_backend(Backend(disk.clone())).unwrap();
                let after = found(&mut store);
                prop_assert!(after == model || after == before, "a part of a batch is there");
                model = after;
            }
        }
    }
}
