-- What the server loads when it starts, separated by commas.
SELECT current_setting('shared_preload_libraries')
