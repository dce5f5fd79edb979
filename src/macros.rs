//! Macros of the whole crate.

/// Implements `Debug` for a type by the fields that are named here, and `..` for the rest:
/// `debug! { impl[T: Send] Handle[T] { state = |handle| handle.state() } }`
macro_rules! debug {
    (
        impl[$($generics:tt)*] $name:ident[$($arguments:tt)*] {
            $($field:ident = |$this:ident| $value:expr),* $(,)?
        }
    ) => {
        impl<$($generics)*> ::std::fmt::Debug for $name<$($arguments)*> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut fields = f.debug_struct(stringify!($name));
                $(
                    let $this = self;
                    fields.field(stringify!($field), &$value);
                )*
                fields.finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Display` for an enum by one text per variant, which may contain the variant's
/// fields: `display! { BindError { NoSuchShard { shard } => "there is no shard {shard}" } }`
macro_rules! display {
    (
        $name:ident {
            $($variant:ident $({ $($field:ident),* })? $(($value:ident))? => $text:literal),* $(,)?
        }
    ) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($name::$variant $({ $($field),* })? $(($value))? => write!(f, $text),)*
                }
            }
        }
    };
}
