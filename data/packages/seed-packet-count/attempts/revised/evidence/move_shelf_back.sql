UPDATE shelves SET place = 'hall' WHERE shelf = 'C';
