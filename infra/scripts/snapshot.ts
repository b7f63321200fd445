// Writes snapshots/. Read the difference before committing it.
import { snapshots, write } from "../lib/snapshots.ts";

const wanted = snapshots();
write(wanted);
console.log(`${wanted.size} templates in snapshots/`);
