# SPDX-License-Identifier: Apache-2.0
"""A spider that meets refused connections, missing pages and an error of its own."""

import scrapy


class Spider(scrapy.Spider):
    name = "errors"

    async def start(self):
        for place in (f"127.0.0.1:{self.port}/", f"127.0.0.1:{self.port}/missing", "127.0.0.1:1/"):
            yield scrapy.Request(f"http://{place}", callback=self.parse)

    def parse(self, response):
        self.logger.warning("got %s, about to fail", response.status)
        return {"broken": 1 / 0}
