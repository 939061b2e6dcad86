"""Operations: each a module with its public function, and modules named after it for its parts."""
