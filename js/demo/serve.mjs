// Serves the demonstration: npm run demo

import { serve } from "../serve.mjs";

const { url } = await serve({ port: Number(process.env.PORT ?? 8080) });
console.log(`${url}/demo/`);
