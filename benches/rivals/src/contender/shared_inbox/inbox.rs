//! The two inboxes.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_queue::SegQueue;

use super::node::Node;

/// Many put timers in, one takes them out.
pub(crate) trait Inbox: Default + Send + Sync + 'static {
    /// What the contender is called that has it.
    const NAME: &'static str;
    /// What that is, in half a line.
    const ABOUT: &'static str;

    /// Puts a timer in.
    fn push(&self, node: Arc<Node>);

    /// Takes out what is there.
    fn take(&self, each: impl FnMut(Arc<Node>));

    /// Whether nothing is there.
    fn is_empty(&self) -> bool;
}

/// crossbeam's unbounded queue.
#[derive(Debug, Default)]
pub(crate) struct Seg(SegQueue<Arc<Node>>);

/// A stack through the timers themselves, taken as a whole.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Stack {
    top: AtomicPtr<Node>,
}

impl Inbox for Seg {
    const NAME: &'static str = "shared-inbox-segqueue";
    const ABOUT: &'static str = "prototype: all through one SegQueue to one reaper";

    #[inline]
    fn push(&self, node: Arc<Node>) {
        self.0.push(node);
    }

    fn take(&self, each: impl FnMut(Arc<Node>)) {
        std::iter::from_fn(|| self.0.pop()).for_each(each);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Inbox for Stack {
    const NAME: &'static str = "shared-inbox-intrusive";
    const ABOUT: &'static str = "prototype: all through one stack of timers to one reaper";

    #[inline]
    fn push(&self, node: Arc<Node>) {
        let node = Arc::into_raw(node).cast_mut();
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the stack has a share of it, and nobody else links it meanwhile.
            unsafe { &*node }.next.store(top, Ordering::Relaxed);
            match self.top.compare_exchange_weak(top, node, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    fn take(&self, mut each: impl FnMut(Arc<Node>)) {
        let mut top = self.top.swap(ptr::null_mut(), Ordering::AcqRel);
        while !top.is_null() {
            // SAFETY: pushing left the stack a share of it, which is taken back once.
            let node = unsafe { Arc::from_raw(top.cast_const()) };
            top = node.next.load(Ordering::Relaxed);
            each(node);
        }
    }

    fn is_empty(&self) -> bool {
        self.top.load(Ordering::SeqCst).is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything_comes_out_once<I: Inbox>() {
        let inbox = I::default();
        assert!(inbox.is_empty());
        for token in 0..100 {
            inbox.push(Arc::new(Node::new(1, token)));
        }
        let mut taken = Vec::new();
        inbox.take(|node| taken.push(node.token));
        taken.sort_unstable();
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_goes_into_an_inbox_comes_out_once() {
        everything_comes_out_once::<Seg>();
        everything_comes_out_once::<Stack>();
    }
}
