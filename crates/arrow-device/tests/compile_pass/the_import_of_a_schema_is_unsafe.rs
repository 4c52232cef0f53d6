use arrow_device::Schema;
use arrow_device::abi::ArrowSchema;

fn import(c_schema: &mut ArrowSchema) {
    // SAFETY: the struct is released.
    unsafe { Schema::import(c_schema) }.unwrap_err();
}

fn main() {
    import(&mut ArrowSchema::empty());
}
