INSERT INTO insert_width (value) VALUES (repeat('X', :width));
