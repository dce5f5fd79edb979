//! The house rules that a machine can check, one test per rule. A failure lists each offence with
//! its file and line.
//!
//! The rules are functions over sources, beside this, and each is tried on planted offences where
//! it stands, so that a rule which finds nothing is known to look.

mod audit;
mod checks;
mod documents;
mod floors;
mod locks;
mod order;
mod paths;
mod shape;
mod source;

use source::{crate_files, tree};

#[track_caller]
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{} offences\n{}\n", complaints.len(), complaints.join("\n"));
}

#[test]
fn imports_only_go_down_the_floors() {
    let mut files = tree().to_vec();
    files.retain(|source| floors::has_floors(&source.path));
    assert_none(floors::upward_imports(&files));
}

#[test]
fn no_two_files_of_durable_timers_import_each_other() {
    assert_none(floors::circles(tree()));
}

#[test]
fn threads_locks_the_epoch_and_the_system_are_named_behind_their_doors_only() {
    assert_none(floors::forced_doors(&crate_files()));
}

#[test]
fn what_is_hidden_is_used_by_the_crates_that_may() {
    assert_none(floors::hidden_doors(tree()));
}

#[test]
fn tests_under_threadsanitizer_use_locks_that_it_sees() {
    assert_none(floors::unseen_locks(tree()));
}

#[test]
fn every_atomic_access_says_what_it_is_for() {
    let files = crate_files();
    assert_none(order::unexplained_accesses(&files));
    assert_none(order::malformed_notes(&files));
}

#[test]
fn every_handshake_is_marked_in_the_code() {
    assert_none(order::unused_handshakes(&crate_files()));
}

#[test]
fn every_handshake_has_a_row_in_the_architecture() {
    assert_none(order::undocumented_handshakes(&documents::document("ARCHITECTURE.md")));
}

#[test]
fn every_handshake_has_a_model() {
    assert_none(order::unmodelled_handshakes());
}

#[test]
fn nobody_who_acts_waits_for_a_thread_that_looks() {
    assert_none(locks::unclear_locks(&crate_files(), &documents::document("ARCHITECTURE.md")));
}

#[test]
fn functions_and_lines_are_short() {
    assert_none(shape::oversized(tree()));
}

#[test]
fn what_programs_share_is_a_crate() {
    assert_none(shape::mounts(tree()));
}

#[test]
fn every_file_begins_by_saying_what_it_is() {
    assert_none(shape::headless(tree()));
}

#[test]
fn nothing_is_left_unfinished_or_switched_off() {
    assert_none(shape::unfinished(tree()));
    assert_none(shape::silenced_lints(tree()));
}

#[test]
fn every_unsafe_promise_gives_its_reason() {
    assert_none(shape::unreasoned_unsafe(tree()));
}

#[test]
fn the_page_for_auditors_counts_the_unsafe_blocks() {
    assert_none(audit::uncounted_unsafe(tree(), &documents::document("docs/unsafe.md")));
}

#[test]
fn no_safe_function_of_the_core_takes_a_raw_pointer() {
    let mut files = tree().to_vec();
    files.retain(|source| !source.path.contains("tests") && audit::promises_safety(&source.path));
    assert_none(audit::taken_pointers(&files));
}

#[test]
fn the_compiler_that_is_promised_builds_the_crates() {
    assert_none(shape::let_chains(tree()));
}

#[test]
fn the_documents_are_there_and_short() {
    assert_none(documents::bad_documents());
}

#[test]
fn figures_do_not_split_their_paragraphs() {
    assert_none(documents::split_paragraphs());
}

#[test]
fn files_that_prose_names_exist() {
    assert_none(documents::broken_references(tree()));
}

#[test]
fn every_check_is_in_one_tier_and_in_the_table() {
    assert_none(checks::stray_checks());
}

#[test]
fn the_commands_of_the_readmes_are_run_as_they_stand() {
    assert_none(checks::unchecked_commands());
}

#[test]
fn only_the_tests_of_real_time_look_at_it() {
    assert_none(checks::tests_of_real_time(tree()));
}

#[test]
fn every_file_of_tests_is_run() {
    assert_none(documents::forgotten_tests(tree()));
}

#[test]
fn few_inputs_of_fuzzers_are_kept() {
    assert_none(documents::too_many_inputs());
}
