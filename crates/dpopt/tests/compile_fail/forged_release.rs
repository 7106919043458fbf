fn main() {
    let _ = dpopt::Released::new(3.0_f64);
}
