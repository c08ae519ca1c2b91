CREATE TABLE insert_width (value text);
